"""Pages of the reference that are written from the code: plugins, configuration, commands, APIs."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
from typer.main import get_command

from manual import schemas
from moorage.scheduler.config import types as config_types
from moorage.scheduler.framework import plugin as plugin_module
from moorage.scheduler.framework.contracts import read_signature
from moorage.scheduler.framework.events import EVERY_EVENT
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import extension_points
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.testing.rig import Rig


def pages() -> dict[str, str]:
    """Return every generated page by its name."""
    return {
        "reference/plugins.md": plugins_page(),
        "reference/configuration.md": configuration_page(),
        "reference/commands.md": commands_page(),
        "reference/testing.md": testing_page(),
        "reference/caches.md": caches_page(),
        "reference/python-api.md": python_api_page(),
        "reference/schemas.md": schemas.page(),
    }


API_SECTIONS: dict[str, Callable[[Any], bool]] = {
    "Plugins": lambda obj: inspect.isclass(obj) and issubclass(obj, Plugin),
    "Functions": inspect.isfunction,
    "Errors": lambda obj: inspect.isclass(obj) and issubclass(obj, Exception),
    "Kubernetes objects": lambda obj: getattr(obj, "__module__", "").startswith("moorage.kube"),
    "Framework": lambda obj: obj is not None,
}
"""The sections of the page, each with the test for its names; a name belongs to the first section that takes it."""


def python_api_page() -> str:
    """Show every name of `from moorage import …`: signature, fields, methods and documentation."""
    import moorage

    parts = [
        "# Python API",
        "All names of the package `moorage`. Plugins and notebooks need no others; tests have the "
        "[testing kit](testing.md). [Versions](versioning.md) describes what may change.",
    ]
    names = {name: getattr(moorage, name) for name in moorage.__all__}
    for title, takes in API_SECTIONS.items():
        section = [name for name, obj in names.items() if takes(obj)]
        parts += [f"## {title}", get_docstring(plugin_module) if title == "Plugins" else ""]
        for name in section:
            parts += [f"### {name}", *_described(name, names.pop(name))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _described(name: str, obj: Any) -> Iterator[str]:
    """Describe a public name: a class with its members, a function, or a constant."""
    if inspect.isfunction(obj):
        yield from (_signature(obj), get_docstring(obj))
    elif inspect.isclass(obj) and not get_args(obj):
        bases = ", ".join(f"`{base.__name__}`" for base in obj.__bases__ if base.__module__.startswith("moorage"))
        yield get_docstring(obj)
        yield f"Inherits from {bases}." if bases else ""
        yield from _attributes(obj)
        yield from _methods(obj)
    else:
        value = re.sub(r"\b(?:moorage|typing|numpy)(?:\.\w+)*\.", "", str(obj))
        yield f"`{name} = {value}`"
        yield _CONSTANTS.get(name, "")


_CONSTANTS = {
    "ASSUMED": "Key of the cycle state under which a reserve plugin stores the pod if it uses more resources on its "
    "node than it requests.",
    "BoolArray": "A NumPy array of bool, one value for each node.",
    "FloatArray": "A NumPy array of float64.",
    "IntArray": "A NumPy array of integers, one value for each node.",
    "MAX_NODE_SCORE": "The best score after normalization.",
    "MIN_NODE_SCORE": "The worst score after normalization.",
    "Quantity": "A Kubernetes quantity as in a manifest: a text such as `500m`, or a number.",
}


def _attributes(kind: type) -> Iterator[str]:
    """Describe the fields and documented attributes of a class, in the order of its source."""
    if issubclass(kind, Enum):
        yield "\n".join(f"- `{member.name}`" for member in kind)
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    lines = []
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            is_documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = str(following.value.value) if is_documented else ""  # type: ignore[union-attr]
            text = re.sub(r"\s+", " ", text).replace("``", "`")
            lines.append(
                f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}`" + (f" — {text}" if text else "")
            )
    yield "\n".join(lines)


def caches_page() -> str:
    """List every cache of the source with its budget."""
    source = Path(__file__).parents[1] / "src"
    rows = sorted(
        (name, budget, f"`{path.relative_to(source / 'moorage')}`")
        for path in source.rglob("*.py")
        for name, budget in find_caches(path)
    )
    lines = ["| cache | budget (entries) | module |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    intro = (
        "Every bounded cache, from the code. `/debug/caches` of a running scheduler reports how many caches of each "
        "name exist, their entries and their budgets."
    )
    return "\n\n".join(["# Caches", intro, "\n".join(lines)]) + "\n"


def find_caches(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the budget of each cache that a module creates."""
    tree = ast.parse(path.read_text())
    constants = {
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]): ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("LRU", "AdmissionLRU"):
            name, limit = node.args[:2]
            if isinstance(name, ast.Name):  # inside the caches module
                continue
            budget = ast.unparse(limit)
            yield ast.unparse(name).lstrip("f").strip("'\""), constants.get(budget, budget)
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "cached":
                    yield f"`{node.name}()`", ast.unparse(decorator.args[0])


def plugins_page() -> str:
    """Describe every plugin: its extension points, arguments, events and messages."""
    parts = ["# Plugins", "Every in-tree plugin, from its code. `moorage config view` shows where each is enabled."]
    for kind in sorted(IN_TREE, key=lambda each: each.name):
        parts += [
            f"## {kind.name}",
            get_docstring(kind),
            f"*Extension points*: {', '.join(sorted(extension_points(kind)))}",
        ]
        if kind.Args is not None:
            parts += ["*Arguments*", describe_fields(kind.Args)]
        if events := describe_events(kind):
            parts.append(f"*Tried again after*: {events}")
        if messages := list_plugin_messages(kind):
            parts += ["*Messages*", "\n".join(f"- `{message}`" for message in messages)]
    return "\n\n".join(parts) + "\n"


def get_docstring(obj: Any) -> str:
    """Return a docstring as Markdown."""
    text = inspect.getdoc(obj) or ""
    text = re.sub(r":\w+:`~?([^`]+)`", lambda match: f"`{match.group(1).rsplit('.', 1)[-1]}`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return re.sub(r"((?:^>>> .*\n?(?:^(?!$).*\n?)*)+)", r"\n```pycon\n\1\n```\n", text, flags=re.MULTILINE)


def describe_fields(struct: type[Any]) -> str:
    """Write the fields of a struct as a table."""
    rows = ["| field | type | default |", "|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        default = "" if field.required else _default(field)
        kind = re.sub(r"\b(?:moorage|typing|msgspec)(?:\.\w+)*\.", "", _type_name(field.type)).replace("|", "\\|")
        rows.append(f"| `{field.encode_name}` | `{kind}` | {default} |")
    return "\n".join(rows)


def _type_name(kind: Any) -> str:
    if hasattr(kind, "__metadata__"):
        return _type_name(get_args(kind)[0])
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return (
            f"[{type(value).__name__}](configuration.md)"
            if type(value).__module__ == config_types.__name__
            else "see there"
        )
    plain = msgspec.json.encode(value, enc_hook=str).decode()
    return f"`{plain}`" if plain not in ("null", '""', "[]", "{}") else ""


def describe_events(kind: type[Plugin]) -> str:
    """Name the events that a plugin registers."""
    offered = {"args": None if kind.Args is None else kind.Args(), "handle": Rig()}
    arguments = {name: offered[name] for name in inspect.signature(kind).parameters if name in offered}
    try:
        registered = kind(**arguments).events_to_register()
    except (TypeError, AttributeError):
        return ""
    if tuple(registered) == EVERY_EVENT:
        return ""
    return ", ".join(dict.fromkeys(f"`{each.event.resource}` {each.event.action.name}" for each in registered))


def list_plugin_messages(kind: type[Plugin]) -> list[str]:
    """List the reasons in a plugin's modules, with … for inserted values."""
    module = import_module(kind.__module__)
    package = kind.__module__.rpartition(".")[0]
    files = [module] if package == "moorage.scheduler.plugins" else list(_modules_of(package))
    messages: dict[str, None] = {}
    for each in files:
        for node in ast.walk(ast.parse(inspect.getsource(each))):
            if isinstance(node, ast.Call) and _is_rejection(node.func):
                messages.update(dict.fromkeys(text for arg in node.args if (text := _text(arg))))
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason" and _text(node.value):
                messages[_text(node.value)] = None
    return sorted(messages)


def _modules_of(package: str) -> Iterator[ModuleType]:
    directory = import_module(package).__path__[0]
    for path in sorted(Path(directory).glob("*.py")):
        yield import_module(f"{package}.{path.stem}" if path.stem != "__init__" else package)


def _is_rejection(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in (
        "unschedulable",
        "unresolvable",
        "pending",
        "error",
    )


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value) if isinstance(value, ast.Constant) else "…" for value in values)
    return ""


def configuration_page() -> str:
    """Describe every field of a configuration."""
    head = "Every field of `kubescheduler.config.k8s.io/v1`. The arguments of plugins: [plugins](plugins.md)."
    parts = ["# Configuration", head]
    structs = [
        each for _, each in inspect.getmembers(config_types, inspect.isclass) if issubclass(each, msgspec.Struct)
    ]
    for struct in sorted(structs, key=lambda each: inspect.getsourcelines(each)[1]):
        if struct.__module__ == config_types.__name__ and msgspec.structs.fields(struct):
            parts += [f"## {struct.__name__}", get_docstring(struct), describe_fields(struct)]
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Show the help of every command."""
    from moorage.cli.commands import make_app

    introduction = "The output of `--help` for each command. `moorage scheduler` has its own page: [flags](flags.md)."
    parts = ["# Commands", introduction]
    parts += _helps(get_command(make_app()), "moorage")
    return "\n\n".join(parts) + "\n"


def _helps(command: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True, terminal_width=100, max_content_width=100)
    yield f"## {name}"
    yield f"```text\n{command.get_help(context).rstrip()}\n```"
    for part in getattr(command, "commands", {}).values():
        if not part.hidden:
            yield from _helps(part, f"{name} {part.name}")


def testing_page() -> str:
    """Show what tests of plugins are made of."""
    parts = ["# Testing kit", get_docstring(import_module("moorage.testing"))]
    for name in ("builders", "checks", "cluster", "rig", "strategies"):
        module = import_module(f"moorage.testing.{name}")
        parts += [f"## moorage.testing.{name}", get_docstring(module)]
        members = [item for item in vars(module).values() if getattr(item, "__module__", "") == module.__name__]
        for member in members:
            if inspect.isfunction(member) and not member.__name__.startswith("_"):
                parts += [f"### {member.__name__}", _signature(member), get_docstring(member)]
            elif inspect.isclass(member) and not member.__name__.startswith("_"):
                parts += [f"### {member.__name__}", get_docstring(member), *_methods(member)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _methods(kind: type) -> Iterator[str]:
    for name, method in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(method) or isinstance(method, property)):
            continue
        if isinstance(method, property):
            yield f"`{name}`: {textwrap.indent(get_docstring(method), '  ').strip()}"
        else:
            yield f"{_signature(method)}\n\n{textwrap.indent(get_docstring(method), '    ').strip()}"


def _signature(function: Any) -> str:
    parameters = ", ".join(
        str(each).partition(":")[0].partition(" =")[0] for each in read_signature(function).parameters.values()
    )
    word = "async " if inspect.iscoroutinefunction(function) else ""
    return f"**`{word}{function.__name__}({parameters})`**"
