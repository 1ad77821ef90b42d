"""Types of flag values: how to read them, how to print them, and the effect of a repeated flag."""

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from moorage.common.errors import QuantityError
from moorage.kube.api import quantity
from moorage.scheduler.config.durations import Duration

TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
MODULE_LEVEL: Final = re.compile(r"(?P<pattern>[^=]+)=(?P<level>\d+)")


class NamedCertificate(NamedTuple):
    """One value of --tls-sni-cert-key; without names, those in the certificate count."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


class FlagKind(Struct, frozen=True):
    """A type of flag: ``read`` raises ValueError with its complaint, ``bare`` is the value of a flag without one."""

    name: str
    read: Callable[[str], Any]
    bare: str | None = None
    #: Joins a further mention to the earlier value; without it, the last mention wins.
    join: Callable[[Any, Any], Any] | None = None


def _read_bool(text: str) -> bool:
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _integer_reader(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)", text, re.ASCII):
            raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        number = int(text, 16 if "x" in text.lower() else 10)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
        return number

    return read


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _read_integers(text: str) -> tuple[int, ...]:
    read = _integer_reader(32)
    return tuple(read(item.strip()) for item in _read_list(text))


def _read_map(text: str) -> dict[str, str]:
    """Read ``key='a,b',key2=c``; with a single pair every comma belongs to it, since keys here are ``metric,label``."""
    if text.count("=") == 1:
        key, _, value = text.partition("=")
        return {key.strip(): value.strip("'\"")}
    entries: dict[str, str] = {}
    remaining = text.strip()
    while remaining:
        match = re.match(r"""(?P<key>[^=]+)=(?P<value>'[^']*'|"[^"]*"|[^,]*)(?:,\s*|$)""", remaining)
        if match is None:
            raise ValueError(f"{remaining} must be formatted as key=value")
        entries[match["key"].strip()] = match["value"].strip("'\"")
        remaining = remaining[match.end() :]
    return entries


def _read_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f'failed to parse IP: "{text}"') from None


def _read_certificate(text: str) -> tuple[NamedCertificate, ...]:
    files, _, names = text.partition(":")
    pair = files.split(",")
    if len(pair) != 2 or not all(pair):
        raise ValueError("expected comma separated certificate and key file paths")
    return (NamedCertificate(pair[0], pair[1], tuple(name for name in names.split(",") if name)),)


def _read_bytes(text: str) -> int:
    try:
        return quantity.value(text)
    except QuantityError as error:
        raise ValueError(str(error)) from error


def _read_modules(text: str) -> dict[str, int]:
    levels = {}
    for item in filter(None, text.split(",")):
        match = MODULE_LEVEL.fullmatch(item.strip())
        if match is None:
            raise ValueError("syntax error: expect comma-separated list of filename=N")
        levels[match["pattern"]] = int(match["level"])
    return levels


def _added(before: Sequence[Any], more: Sequence[Any]) -> tuple[Any, ...]:
    return (*before, *more)


def _merged(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {**before, **more}


TEXT: Final = FlagKind("string", str)
BOOL: Final = FlagKind("bool", _read_bool, bare="true")
INT: Final = FlagKind("int", _integer_reader(64))
INT32: Final = FlagKind("int32", _integer_reader(32))
FLOAT: Final = FlagKind("float32", _read_float)
DURATION: Final = FlagKind("duration", Duration.parse)
ADDRESS: Final = FlagKind("ip", _read_address)
TEXTS: Final = FlagKind("strings", _read_list, join=_added)
INTEGERS: Final = FlagKind("int32Slice", _read_integers, join=_added)
MAP: Final = FlagKind("stringToString", _read_map, join=_merged)
CERTIFICATES: Final = FlagKind("namedCertKey", _read_certificate, join=_added)
BYTES: Final = FlagKind("quantity", _read_bytes)
LEVEL: Final = FlagKind("Level", _integer_reader(32))
MODULE_LEVELS: Final = FlagKind("pattern=N,...", _read_modules)
GATES: Final = FlagKind("gates", lambda text: (text,), join=_added)
VERSION: Final = FlagKind("version", str, bare="true")
PATHS: Final = FlagKind("module:Class", lambda text: (text,), join=_added)


def shown(value: Any) -> str:
    """Print a value as the flag that would set it is written."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return ",".join(f"{key}={shown(item)}" for key, item in value.items())
        case NamedCertificate():
            files = f"{value.cert_file},{value.key_file}"
            return f"{files}:{','.join(value.names)}" if value.names else files
        case tuple():
            return ",".join(shown(item) for item in value)
        case float():
            return f"{value:g}"
        case _:
            return str(value)
