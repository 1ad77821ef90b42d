"""What can go wrong, as classes that say what happens next.

MoorageError
├── InputError            a file or object a user gave cannot be used: one message, exit code 2
│   └── ConfigError       the same for the configuration; `where` is a path into it
│       ├── ConfigErrors  several of them at once, in the order of the document
│       └── UnknownPluginError
├── QuantityError         a text is not a Kubernetes quantity (a ValueError too)
├── SelectorError         a label or node selector cannot be used (a ValueError too)
├── MigrationError        an in-tree volume has no CSI name (a ValueError too)
├── ApiError              the API refused a request: the write is tried again, or what it was for fails
│   ├── Conflict          the object changed meanwhile
│   ├── AlreadyExists     an object of that name is there
│   ├── NotFound          the object is gone
│   ├── Gone              the version asked for is forgotten: list again
│   ├── Unauthorized      the credentials are not taken
│   ├── Forbidden         a permission is missing; the message says which
│   ├── TooManyRequests   the server asks for patience: wait ``retry_after`` seconds and try again
│   ├── ServerError       the server failed: try again
│   └── Unreachable       no answer: the request may or may not have been carried out
├── NotStored             a plugin read state that nobody stored in this attempt (a LookupError too)
├── LeadershipLost        another replica leads, or may: stop working at once
├── ServiceError          a web service that is asked did not answer, or what cannot be used
├── ExtenderError         a scheduler extender failed, or answered what it may not
└── PluginError           a plugin broke its contract or raised: that attempt fails, the scheduler lives on
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from moorage.common.text import MAX_MESSAGE, shortened

MAX_PLACE: Final = 1024
MAX_PROBLEMS: Final = 100
"""How many problems of a configuration are listed."""
MAX_NAME: Final = 256
"""No name is longer; what is longer is none that was mistyped, and comparing it would take long."""


class MoorageError(Exception):
    """Everything Moorage raises on purpose. Its message is never longer than a few pages, whatever it quotes."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class InputError(MoorageError):
    """Something a user gave cannot be used; the message says where, what, and what to write instead."""

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        where, problem, hint = shortened(where, MAX_PLACE), shortened(problem), shortened(hint, MAX_PLACE)
        super().__init__(f"{where}: {problem}" + (f"\n  hint: {hint}" if hint else ""))
        self.where, self.problem, self.hint = where, problem, hint


class ConfigError(InputError):
    """The configuration cannot be used; `where` is the path of the field."""


class ConfigErrors(ConfigError):
    """Every problem of a configuration at once, so that one edit fixes them all."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        lines = [str(error) for error in errors[:MAX_PROBLEMS]]
        if len(errors) > MAX_PROBLEMS:
            lines.append(f"… and {len(errors) - MAX_PROBLEMS:,} more")
        Exception.__init__(self, shortened("\n".join(lines), 4 * MAX_MESSAGE))
        self.errors = tuple(errors)
        self.where, self.problem, self.hint = errors[0].where, errors[0].problem, errors[0].hint


class UnknownPluginError(ConfigError):
    """A name in the configuration belongs to no plugin we can find."""

    def __init__(self, name: str, *, where: str, known: Collection[str]) -> None:
        hint = did_you_mean(name, known) or (
            "third-party plugins must be registered first, e.g. --plugin my_package.my_module:MyPlugin"
        )
        super().__init__(where, f"no plugin is named {name!r}", hint=hint)


class QuantityError(MoorageError, ValueError):
    """A text is not a Kubernetes quantity."""


class SelectorError(MoorageError, ValueError):
    """A selector has an operator, key or value that Kubernetes does not know."""


class MigrationError(MoorageError, ValueError):
    """An in-tree volume cannot be named as the CSI driver that serves it now would."""


class PluginError(MoorageError):
    """A plugin raised, or answered something its extension point does not allow."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(problem)
        self.plugin = plugin


class ServiceError(MoorageError):
    """A web service could not be reached, or did not answer what it was asked for."""


class ExtenderError(MoorageError):
    """An extender could not be reached, failed, or answered what it may not."""


class NotStored(MoorageError, LookupError):
    """A plugin read state of the attempt that nobody stored, as when its pre-filter is switched off."""


class CacheError(MoorageError):
    """The cache was given a change that contradicts what it holds."""


class ApiError(MoorageError):
    """The API refused a request, or did not answer; ``status`` is the HTTP code, 0 if there was none.

    ``reason`` is the API's code for it, such as ``NotFound``. ``retry_after`` is how many seconds the server asked us
    to wait before trying again, if it did. ``details`` is what the Status object says of the object and the causes.
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
    """The object changed meanwhile, or the pod has its node already."""


class AlreadyExists(ApiError):
    """An object of that name is there."""


class NotFound(ApiError):
    """The object is gone."""


class Gone(ApiError):
    """The server no longer knows the version we asked about; list again and go on from there."""


class Unauthorized(ApiError):
    """The server does not take our credentials: they are missing, wrong or expired."""


class Forbidden(ApiError):
    """We may not do this; the message names the verb and the resource that RBAC has to allow."""


class TooManyRequests(ApiError):
    """The server has too much to do; ``retry_after`` says how long to wait."""


class ServerError(ApiError):
    """The server failed in answering; the request may have been carried out."""


class Unreachable(ApiError):
    """There was no answer. ``was_sent`` is False if the request cannot have reached the server."""

    def __init__(self, message: str = "", *, was_sent: bool = True) -> None:
        super().__init__(message, reason="Unreachable")
        self.was_sent = was_sent


class LeadershipLost(MoorageError):
    """The lease could not be renewed in time: another replica may lead now, so this one must stop."""


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Suggest the closest known name as a hint, or say nothing."""
    if len(name) > MAX_NAME:
        return ""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def explain(error: MoorageError) -> str:
    """Put an error in words for a terminal; notes on it say which file it is about."""
    about = "".join(f"{shortened(note, MAX_PLACE)}: " for note in getattr(error, "__notes__", ()))
    if not isinstance(error, ConfigErrors) or len(error.errors) == 1:
        return f"{about}{error}"
    lines = str(error).replace("\n", "\n  ")
    return f"{about}{len(error.errors)} problems\n  {lines}"
