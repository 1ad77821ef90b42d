"""Field errors of a configuration, with upstream's texts and a hint."""

from collections.abc import Sequence

from moorage.common.errors import ConfigError
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    required_value,
    unsupported_value,
)
from moorage.scheduler.config.durations import Duration


def invalid(where: str, value: object, detail: str, *, hint: str = "") -> ConfigError:
    """Return the error for a malformed value or a value out of range."""
    return _config_error(invalid_value(where, str(value) if isinstance(value, Duration) else value, detail), hint)


def required(where: str, detail: str = "", *, hint: str = "") -> ConfigError:
    """Return the error for a missing value."""
    return _config_error(required_value(where, detail), hint)


def duplicate(where: str, value: object, *, hint: str = "") -> ConfigError:
    """Return the error for a value that must be unique."""
    return _config_error(duplicate_value(where, value), hint)


def forbidden(where: str, detail: str) -> ConfigError:
    """Return the error for a value that must not be set."""
    return _config_error(forbidden_field(where, detail))


def unsupported(where: str, value: str, supported: Sequence[str]) -> ConfigError:
    """Return the error for a value outside of an enumeration."""
    return _config_error(unsupported_value(where, value, supported))


def _config_error(error: FieldError, hint: str = "") -> ConfigError:
    return ConfigError(error.field, error.message, hint=hint)
