"""The exceptions of Moorage. The class of an exception determines the reaction to it.

MoorageError
├── InputError            a file or object of a user is invalid: one message, exit code 2
│   └── ConfigError       the same for the configuration. `where` is a path into it
│       ├── ConfigErrors  several problems, in the order of the document
│       └── UnknownPluginError
├── QuantityError         a text is not a Kubernetes quantity (also a ValueError)
├── SelectorError         a label or node selector is invalid (also a ValueError)
├── MigrationError        an in-tree volume has no CSI name (also a ValueError)
├── ApiError              the API rejected a request: the write is retried, or its purpose fails
│   ├── Conflict          the object changed since it was read
│   ├── AlreadyExists     an object of that name exists
│   ├── NotFound          the object does not exist
│   ├── Gone              the requested version has expired: relist
│   ├── Unauthorized      the credentials are invalid
│   ├── Forbidden         a permission is missing. The message names it
│   ├── TooManyRequests   the server is overloaded: retry after ``retry_after`` seconds
│   ├── ServerError       the server failed: retry
│   └── Unreachable       no response: the request may or may not have been executed
├── NotStored             a plugin read state that was not stored in this attempt (also a LookupError)
├── LeadershipLost        another replica leads, or may lead: stop immediately
├── ServiceError          a web service did not respond, or its response is invalid
├── ExtenderError         a scheduler extender failed, or its response is invalid
└── PluginError           a plugin violated its contract or raised: the attempt fails
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from moorage.common.text import MAX_MESSAGE, shortened

MAX_PLACE: Final = 1024
MAX_PROBLEMS: Final = 100
"""Maximum number of configuration problems in one message."""
MAX_NAME: Final = 256
"""Longer strings cannot be typos of a known name, and comparing them is slow."""


class MoorageError(Exception):
    """The base of all exceptions that Moorage raises on purpose. Long messages are shortened."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class InputError(MoorageError):
    """Invalid input of a user. The message contains the place, the problem and a correction."""

    def __init__(self, location: str, problem: str, *, hint: str = "") -> None:
        location, problem, hint = shortened(location, MAX_PLACE), shortened(problem), shortened(hint, MAX_PLACE)
        super().__init__(f"{location}: {problem}" + (f"\n  hint: {hint}" if hint else ""))
        self.where, self.problem, self.hint = location, problem, hint


class ConfigError(InputError):
    """The configuration cannot be used; `where` is the path of the field."""


class ConfigErrors(ConfigError):
    """All problems of a configuration, so that one edit fixes them."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        lines = [str(error) for error in errors[:MAX_PROBLEMS]]
        if len(errors) > MAX_PROBLEMS:
            lines.append(f"… and {len(errors) - MAX_PROBLEMS:,} more")
        Exception.__init__(self, shortened("\n".join(lines), 4 * MAX_MESSAGE))
        self.errors = tuple(errors)
        self.where, self.problem, self.hint = errors[0].where, errors[0].problem, errors[0].hint


class UnknownPluginError(ConfigError):
    """The configuration names a plugin that does not exist."""

    def __init__(self, name: str, *, where: str, names: Collection[str]) -> None:
        hint = did_you_mean(name, names) or (
            "third-party plugins must be registered first, e.g. --plugin my_package.my_module:MyPlugin"
        )
        super().__init__(where, f"no plugin is named {name!r}", hint=hint)


class QuantityError(MoorageError, ValueError):
    """A text is not a Kubernetes quantity."""


class SelectorError(MoorageError, ValueError):
    """A selector has an operator, key or value that Kubernetes does not know."""


class MigrationError(MoorageError, ValueError):
    """An in-tree volume cannot be mapped to its CSI driver."""


class PluginError(MoorageError):
    """A plugin raised, or returned a value that its extension point does not allow."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(problem)
        self.plugin = plugin


class AttemptSuspended(MoorageError):
    """A plugin has used the time of an attempt, and keeps its partial result: the pod is retried after other pods."""


class ServiceError(MoorageError):
    """A web service could not be reached, or its response is invalid."""


class ExtenderError(MoorageError):
    """An extender could not be reached, failed, or its response is invalid."""


class NotStored(MoorageError, LookupError):
    """A plugin read state that was not stored in this attempt, for example because its pre-filter is disabled."""


class CacheError(MoorageError):
    """A change contradicts the content of the cache."""


class ApiError(MoorageError):
    """The API rejected a request or did not respond. ``status`` is the HTTP code, or 0 without a response.

    ``reason`` is the API's code, such as ``NotFound``. ``retry_after`` is the server's requested delay in seconds, if
    it sent one. ``details`` is the part of the Status object that describes the object and the causes.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after
        self.details = details or {}


class Conflict(ApiError):
    """The object changed since it was read, or the pod already has a node."""


class AlreadyExists(ApiError):
    """An object of that name exists."""


class NotFound(ApiError):
    """The object does not exist."""


class Gone(ApiError):
    """The requested version has expired on the server. Relist and continue from there.

    ``token`` continues an expired list with the current objects.
    """

    token = ""


class Unauthorized(ApiError):
    """The credentials are missing, invalid or expired."""


class Forbidden(ApiError):
    """A permission is missing. The message names the verb and the resource that RBAC must allow."""


class TooManyRequests(ApiError):
    """The server is overloaded. ``retry_after`` is the time to wait."""


class ServerError(ApiError):
    """The server failed. The request may have been executed."""


class Unreachable(ApiError):
    """There was no response. ``was_sent`` is False if the request cannot have reached the server."""

    def __init__(self, message: str = "", *, was_sent: bool = True) -> None:
        super().__init__(message, reason="Unreachable")
        self.was_sent = was_sent


class LeadershipLost(MoorageError):
    """The lease could not be renewed in time: another replica may lead now, so this one must stop."""


def comment_hint(text: object) -> str:
    """Return a hint if a text contains a comment in the style of C; URLs have no space before the slashes.

    >>> comment_hint("parallelism: 16 // threads")
    "in YAML '#' begins a comment, not '//'"
    >>> comment_hint("urlPrefix: http://localhost")
    ''
    """
    is_comment = isinstance(text, str) and re.search(r"(?:^|\s)//", text)
    return "in YAML '#' begins a comment, not '//'" if is_comment else ""


def did_you_mean(name: str, names: Collection[str], *, cutoff: float = 0.6) -> str:
    """Return a hint with the closest known name, or an empty string if its similarity is below ``cutoff``."""
    if len(name) > MAX_NAME:
        return ""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}?" if close else ""


_TYPES_IN_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


def describe_mismatch(error: Exception) -> tuple[str, str]:
    """Split the text of a ``msgspec.ValidationError`` into the path of the field and the problem, in the terms of YAML.

    >>> describe_mismatch(ValueError("Expected `int | null`, got `str` - at `$.spec.priority`"))
    ('spec.priority', 'expected an integer or null, found a string')
    >>> describe_mismatch(ValueError("Expected `int | float | str`, got `array` - at `$.cpu`"))
    ('cpu', 'expected a number or a string, found a list')
    >>> describe_mismatch(ValueError("Object contains unknown field `nodez`"))
    ('', "unknown field 'nodez'")
    """
    text, _, path = str(error).partition(" - at `$")
    field_path = path.rstrip("`").lstrip(".")
    if match := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        return field_path, f"unknown field {match[1]!r}"
    if match := re.fullmatch(r"Object missing required field `(.+)`", text):
        return field_path, f"the field {match[1]!r} is missing"
    if match := re.fullmatch(r"Invalid enum value (.+)", text):
        return field_path, f"invalid value {match[1]}"
    if match := re.fullmatch(r"Expected `([\w| ]+)`, got `(\w+)`", text):
        names = match[1].split(" | ")
        names = [name for name in names if name != "int" or "float" not in names]
        expected = " or ".join(_TYPES_IN_WORDS.get(name, name) for name in names)
        actual = "a boolean" if match[2] == "bool" else _TYPES_IN_WORDS.get(match[2], match[2])
        return field_path, f"expected {expected}, found {actual}"
    return field_path, text.replace("JSON is malformed", "invalid JSON").replace(
        "Input data was truncated", "incomplete JSON"
    )


def describe_decode_error(error: Exception) -> str:
    """Return the text of an error of msgspec in the terms of YAML, with the path of the field."""
    field_path, problem = describe_mismatch(error)
    return f"{field_path}: {problem}" if field_path else problem


def explain(error: MoorageError) -> str:
    """Format an error for a terminal. Its notes contain the file."""
    about = "".join(f"{shortened(note, MAX_PLACE)}: " for note in getattr(error, "__notes__", ()))
    if not isinstance(error, ConfigErrors) or len(error.errors) == 1:
        return f"{about}{error}"
    lines = str(error).replace("\n", "\n  ")
    return f"{about}{len(error.errors)} problems\n  {lines}"
