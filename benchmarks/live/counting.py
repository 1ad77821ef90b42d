"""Request counters of the API server."""

import re
from collections import Counter
from typing import Final

from moorage.kube.client.rest import ApiClient

BINDING: Final = "POST pods/binding"
_LINE: Final = re.compile(rb"^apiserver_request_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(rb'(\w+)="([^"]*)"')


class Requests:
    """Successful and failed requests by verb and resource."""

    def __init__(self, text: bytes) -> None:
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        for match in _LINE.finditer(text):
            labels = {name.decode(): value.decode() for name, value in _LABEL.findall(match[1])}
            resource = "/".join(part for part in (labels["resource"], labels["subresource"]) if part)
            count = self.done if labels["code"].startswith("2") else self.refused
            count[f"{labels['verb']} {resource}"] += int(float(match[2]))

    @property
    def bound(self) -> int:
        """Return the number of bindings."""
        return self.done[BINDING]

    def since(self, before: "Requests") -> dict[str, int]:
        """Return the requests since an earlier reading, including failed ones."""
        counts = self.done + self.refused
        counts.subtract(before.done + before.refused)
        return {name: count for name, count in counts.most_common() if count > 0}


async def requests(client: ApiClient) -> Requests:
    """Read the counters from the server."""
    return Requests(await client.request("GET", "/metrics"))
