"""The environments of device selectors: the variables of a device, ``includes`` for its attributes, and formats."""

from typing import Any

from cel_expr_python import cel

from moorage.kube.cel.functions import FORMAT, QUANTITY, VERSION, Function, environment
from moorage.scheduler.plugins.dynamic_resources.cel import formats

_T = cel.Type


def _includes(attribute: Any, value: Any) -> bool:
    """Return whether an attribute has a value. A scalar is treated as a list of one; numbers never equal booleans."""
    items = attribute if isinstance(attribute, list) else [attribute]
    return any(type(item) is type(value) and item == value for item in items)


def _inclusions(*value_types: cel.Type) -> list[Function]:
    # The evaluator dispatches on exact types, so there is one overload for each pair.
    kinds = (_T.List(_T.DYN), _T.STRING, _T.INT, _T.BOOL, VERSION)
    return [Function("includes", (kind, item), _T.BOOL, _includes) for kind in kinds for item in value_types]


def _format_functions() -> list[Function]:
    # The optionals of upstream are lists of at most one element here. See formats.
    return [
        *(
            Function(f"format.{name}", (), FORMAT, lambda name=name: {"@format": name}, member=False)
            for name in formats.FORMATS
        ),
        Function("format.named", (_T.STRING,), _T.List(FORMAT), formats.named, member=False),
        Function("validate", (FORMAT, _T.STRING), _T.List(_T.List(_T.STRING)), formats.validate),
    ]


def checking_environment() -> cel.Env:
    """Return the environment that upstream's compiler checks against."""
    domain_of = _T.Map(_T.STRING, _T.DYN)
    variables = {
        "device": domain_of,
        "device.driver": _T.STRING,
        "device.allowMultipleAllocations": _T.BOOL,
        "device.attributes": _T.Map(_T.STRING, domain_of),
        "device.capacity": _T.Map(_T.STRING, _T.Map(_T.STRING, QUANTITY)),
    }
    return environment(variables, [*_inclusions(_T.DYN), *_format_functions()])


def evaluating_environment() -> cel.Env:
    """Return the evaluation environment: one ``device`` map, and functions for tagged maps."""
    more = [*_inclusions(_T.STRING, _T.INT, _T.BOOL, VERSION), *_format_functions()]
    return environment({"device": _T.DYN}, more, loosely=True)
