"""Upstream's field errors: `<path>: <Kind> value: <value>: <detail>`, and the list they are collected in."""

import json
from collections.abc import Sequence

from moorage.common.errors import ConfigError
from moorage.scheduler.config.durations import Duration


def invalid(where: str, value: object, detail: str, *, hint: str = "") -> ConfigError:
    """Say that a value is outside of what is allowed."""
    return ConfigError(where, f"Invalid value: {quoted(value)}: {detail}", hint=hint)


def required(where: str, detail: str = "", *, hint: str = "") -> ConfigError:
    """Say that a value is missing."""
    return ConfigError(where, "Required value" + (f": {detail}" if detail else ""), hint=hint)


def duplicate(where: str, value: object, *, hint: str = "") -> ConfigError:
    """Say that a value may be there only once."""
    return ConfigError(where, f"Duplicate value: {quoted(value)}", hint=hint)


def forbidden(where: str, detail: str) -> ConfigError:
    """Say that a value must not be given here."""
    return ConfigError(where, f"Forbidden: {detail}")


def unsupported(where: str, value: str, supported: Sequence[str]) -> ConfigError:
    """Say which values there are instead of this one."""
    choices = ", ".join(quoted(choice) for choice in supported)
    return ConfigError(where, f"Unsupported value: {quoted(value)}: supported values: {choices}")


def quoted(value: object) -> str:
    """Print a value as upstream's messages do: as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_text)


def _as_text(value: object) -> str:
    if isinstance(value, Duration):
        return str(value)
    raise TypeError(f"cannot print {value!r} in a message")
