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


def invalid(location: str, value: object, detail: str, *, hint: str = "") -> ConfigError:
    """Return the error for a malformed value or a value out of range."""
    return _config_error(invalid_value(location, str(value) if isinstance(value, Duration) else value, detail), hint)


def required(location: str, detail: str = "", *, hint: str = "") -> ConfigError:
    """Return the error for a missing value."""
    return _config_error(required_value(location, detail), hint)


def duplicate(location: str, value: object, *, hint: str = "") -> ConfigError:
    """Return the error for a value that must be unique."""
    return _config_error(duplicate_value(location, value), hint)


def forbidden(location: str, detail: str) -> ConfigError:
    """Return the error for a value that must not be set."""
    return _config_error(forbidden_field(location, detail))


def unsupported(location: str, value: str, supported: Sequence[str]) -> ConfigError:
    """Return the error for a value outside of an enumeration."""
    return _config_error(unsupported_value(location, value, supported))


def _config_error(error: FieldError, hint: str = "") -> ConfigError:
    return ConfigError(error.field, error.message, hint=hint)
