"""The stanza for kube-scheduler's configuration, to be pasted."""

from typing import Any

import yaml
from msgspec import Struct

from moorage.scheduler.extender_server.served import Served


class Address(Struct, frozen=True):
    """Where the extender is reached, and whether it wants to see a certificate."""

    url: str
    wants_certificate: bool = False


def stanza(served: Served, address: Address) -> str:
    """Write the extender's entry for kube-scheduler's configuration, with notes for the operator in comments."""
    verbs = served.verbs
    extender: dict[str, Any] = {"urlPrefix": address.url}
    if verbs.filters:
        extender |= {"filterVerb": "filter", "preemptVerb": "preempt"}
    if verbs.scores:
        extender |= {"prioritizeVerb": "prioritize", "weight": 1}
    if verbs.binds:
        extender["bindVerb"] = "bind"
    extender |= {"nodeCacheCapable": True, "httpTimeout": "5s"}
    if address.url.startswith("https:"):
        tls = {"caFile": "/path/of/the/authority.crt"}
        if address.wants_certificate:
            tls |= {"certFile": "/path/of/the/client.crt", "keyFile": "/path/of/the/client.key"}
        extender |= {"enableHTTPS": True, "tlsConfig": tls}
    lines = [f"# {', '.join(served.names)} as an extender: for the KubeSchedulerConfiguration of kube-scheduler."]
    if verbs.scores:
        lines.append("# Scores of extenders count tenfold: weight 1 is what weight 10 is in process.")
    document: str = yaml.safe_dump({"extenders": [extender]}, sort_keys=False)
    return "\n".join([*lines, document])
