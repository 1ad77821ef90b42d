"""The named formats that Kubernetes adds to CEL: ``format.dns1123Label().validate(text)``.

A format is the map ``{"@format": name}`` while an expression runs. Upstream returns optionals, which cel-cpp's binding
cannot create. So functions return an empty list for none and a list of an element for a value, and the index ``[?0]``
is added to their calls before an expression is compiled.
"""

import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from typing import Final

from moorage.kube.admission.checks.names import dns_label, label_value, qualified_name, subdomain
from moorage.kube.cel.addresses import parse_url
from moorage.kube.cel.versions import Tagged

Validate = Callable[[str], Iterable[str]]

_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_RULE_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035}')"
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE).fullmatch
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))").fullmatch
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})").fullmatch


def _dns_1035_label(text: str) -> Iterable[str]:
    if len(text) > 63:
        yield "must be no more than 63 characters"
    if not re.fullmatch(_LABEL_1035, text):
        yield _RULE_1035


def _prefix(validate: Validate, text: str) -> Iterable[str]:
    """Validate the beginning of a name: the API server appends characters, so it may end with a dash."""
    return validate(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> Iterable[str]:
    try:
        parse_url(text)
    except ValueError as error:
        yield str(error)


def _is_date(text: str) -> bool:
    if not _DATE(text):
        return False
    try:
        # Go has a year 0, a leap year like 2000.
        date.fromisoformat(text.replace("0000-", "2000-", 1))
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, *times = text.lower().split("t")
    match = _TIME(times[0]) if times else None
    if match is None or not _is_date(day):
        return False
    hour, minute, second = match[1], match[2], match[3]
    return hour <= "23" and minute <= "59" and second <= "59"


def _unless(test: Callable[[str], object], problem: str) -> Validate:
    return lambda text: () if test(text) else (problem,)


FORMATS: Final[dict[str, Validate]] = {
    "dns1123Label": dns_label,
    "dns1123Subdomain": subdomain,
    "dns1035Label": _dns_1035_label,
    "qualifiedName": qualified_name,
    "dns1123LabelPrefix": partial(_prefix, dns_label),
    "dns1123SubdomainPrefix": partial(_prefix, subdomain),
    "dns1035LabelPrefix": partial(_prefix, _dns_1035_label),
    "labelValue": label_value,
    "uri": _uri,
    "uuid": _unless(_UUID, "does not match the UUID format"),
    "byte": _unless(_BASE64, "invalid base64"),
    "date": _unless(_is_date, "invalid date"),
    "datetime": _unless(_is_datetime, "invalid datetime"),
}


def named(name: str) -> list[Tagged]:
    """Return the format of a name, or nothing."""
    return [{"@format": name}] if name in FORMATS else []


def validate(value: Tagged, text: str) -> list[list[str]]:
    """Return the reasons why a text does not have a format, or nothing."""
    if "@format" not in value:
        raise ValueError("no such overload")
    reasons = [*FORMATS[value["@format"]](text)]
    return [reasons] if reasons else []
