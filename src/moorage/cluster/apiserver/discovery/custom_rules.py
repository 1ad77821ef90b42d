"""The rules of custom resources in CEL (``x-kubernetes-validations``).

cel-cpp evaluates them on untyped data, so rules are not type-checked against the schema. A rule that cel-cpp cannot
compile or that lacks an overload at run time is not enforced. :func:`definition_problems` and :func:`unenforced` report
what is known when the definition is created.

The cost of a rule is bounded before its evaluation, with upstream's limit for one rule and for all rules of an object.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.kube.cel.cost import OverBudget
from moorage.kube.cel.expressions import (
    OUT_OF_BUDGET,
    RuleBudget,
    RuleProgram,
    RuleVariables,
    compile_rule,
    walk,
)
from moorage.kube.cel.syntax_tree import Expression, Name, Select
from moorage.kube.field_errors import FieldError, invalid_value, required_value

RULES: Final = "x-kubernetes-validations"
OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata")
MAX_RULES: Final = 1000
"""Rules of a definition. Compiling one takes about a millisecond."""
_REASONS: Final = {
    "FieldValueRequired": ("FieldValueRequired", "Required value"),
    "FieldValueForbidden": ("FieldValueForbidden", "Forbidden"),
    "FieldValueDuplicate": ("FieldValueDuplicate", "Duplicate value"),
}
_RESERVED: Final = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var"
    "|void|while"
)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_NO_OVERLOAD: Final = "No matching overloads"


def escaped(name: str) -> str | None:
    """Return the name of a field in expressions, or ``None`` if it cannot be used there."""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    if not _IDENTIFIER.fullmatch(name):
        return None
    for mark, replacement in _ESCAPES:
        name = name.replace(mark, replacement)
    return name


def _rules(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = schema.get(RULES)
    return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def has_rules(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema has rules at any depth."""
    below = [*_properties(schema).values(), schema.get("items"), schema.get("additionalProperties")]
    return bool(_rules(schema)) or any(has_rules(part) for part in below if isinstance(part, dict))


def rule_problems(data: Any, schema: Mapping[str, Any], old: Any = None) -> Iterator[FieldError]:
    """Yield the violated rules of an object and of all values in it. ``old`` is the previous object, if there is one.

    If the rules may cost too much, the rest is not evaluated, and the last problem reports it.
    """
    try:
        yield from _rule_problems(data, schema, "", old, RuleBudget(), is_root=True)
    except OverBudget:
        yield invalid_value("", str(schema.get("type", "")), OUT_OF_BUDGET)


def _rule_problems(
    data: Any, schema: Mapping[str, Any], path: str, old: Any, budget: RuleBudget, *, is_root: bool = False
) -> Iterator[FieldError]:
    rules = _rules(schema) if data is not None else []
    if rules:
        new_value = to_cel(data, schema, is_root=is_root)
        old_value = to_cel(old, schema, is_root=is_root) if old is not None else None
        variables = RuleVariables({"self": new_value, "oldSelf": old_value}, budget)
        for rule in rules:
            yield from _rule_problem(rule, variables, schema, path, has_old=old is not None)
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(data, dict):
        properties = _properties(schema)
        before = old if isinstance(old, dict) else {}
        for name, content in data.items():
            below = properties.get(name, additional)
            if isinstance(below, dict):
                field_path = f"{path}[{name}]" if name not in properties else f"{path}.{name}" if path else name
                yield from _rule_problems(content, below, field_path, before.get(name), budget)
    elif isinstance(data, list) and isinstance(items, dict):
        keyed = _index_items(old, schema)
        for number, item in enumerate(data):
            previous = keyed.get(_key(item, schema)) if keyed else None
            yield from _rule_problems(item, items, f"{path}[{number}]", previous, budget)


def _index_items(old: Any, schema: Mapping[str, Any]) -> dict[tuple[Any, ...], Any]:
    """Return the previous items by their keys; only the items of list maps correspond to each other."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {_key(item, schema): item for item in old}


def _key(item: Any, schema: Mapping[str, Any]) -> tuple[Any, ...]:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else ()


def _rule_problem(
    rule: Mapping[str, Any], variables: RuleVariables, schema: Mapping[str, Any], path: str, *, has_old: bool
) -> Iterator[FieldError]:
    text = str(rule.get("rule", ""))
    if rule.get("optionalOldSelf") is True:
        optional = "optional.of(oldSelf)" if has_old else "optional.none()"
        program = compile_rule(re.sub(r"\boldSelf\b", optional, text))
    else:
        program = compile_rule(text)
    if program.expression is None or (program.uses_old and not has_old):
        return
    type_name = str(schema.get("type", ""))
    try:
        if variables.evaluate(program) is not False:
            return
    except ValueError as error:
        # Upstream's rules are type-checked: an overload is missing only because dates and durations are texts here.
        if _NO_OVERLOAD not in str(error):
            yield invalid_value(path, type_name, f"rule evaluation error: {error} evaluating rule: {_label(rule)}")
        return
    message = str(rule.get("message") or "").strip() or f"failed rule: {text.strip()}"
    if rule.get("messageExpression"):
        message = _computed_message(compile_rule(str(rule["messageExpression"])), variables) or message
    location = f"{path}{rule.get('fieldPath') or ''}".removeprefix(".") if rule.get("fieldPath") else path
    reason = _REASONS.get(str(rule.get("reason")))
    if reason is None:
        yield invalid_value(location, type_name, message)
    elif reason[0] == "FieldValueDuplicate":
        yield FieldError(reason[0], f'{reason[1]}: "{type_name}"', location)
    else:
        yield FieldError(reason[0], f"{reason[1]}: {message}", location)


def _label(rule: Mapping[str, Any]) -> str:
    return str(rule.get("message") or "").strip() or str(rule.get("rule", "")).strip()


def _computed_message(program: RuleProgram, variables: RuleVariables) -> str:
    if program.expression is None:
        return ""
    try:
        text = variables.evaluate(program)
    except ValueError:
        return ""
    return text.strip() if isinstance(text, str) and "\n" not in text.strip() else ""


def to_cel(data: Any, schema: Mapping[str, Any], *, is_root: bool = False) -> Any:
    """Return a value as expressions see it: declared fields by escaped names, numbers by their declared type."""
    if isinstance(data, dict):
        if schema.get("x-kubernetes-int-or-string") is True:
            return data
        properties, additional = _properties(schema), schema.get("additionalProperties")
        if isinstance(additional, dict):
            return {name: to_cel(content, additional) for name, content in data.items()}
        if schema.get("x-kubernetes-preserve-unknown-fields") is True and not properties:
            return data
        result = {}
        for name, content in data.items():
            if isinstance(properties.get(name), dict) and (key := escaped(name)) is not None:
                result[key] = to_cel(content, properties[name])
        if is_root or schema.get("x-kubernetes-embedded-resource") is True:
            metadata = data.get("metadata") or {}
            result |= {name: data[name] for name in ("apiVersion", "kind") if name in data}
            result["metadata"] = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
        return result
    items = schema.get("items")
    if isinstance(data, list) and isinstance(items, dict):
        return [to_cel(item, items) for item in data]
    if schema.get("type") == "number" and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return data


def count_rules(schema: Mapping[str, Any]) -> int:
    """Return the number of rules at any depth of a schema."""
    return sum(1 for _ in _all_rules(schema, ""))


def definition_problems(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the rules of a definition with syntax errors, unknown variables and undeclared fields."""
    for rule, location, below in _all_rules(schema, path):
        text = str(rule.get("rule", ""))
        if not text.strip():
            yield required_value(f"{location}.rule", "rule is not specified")
            continue
        program = compile_rule(text)
        problem = program.problem if _is_certain(program.problem, text) else ""
        if program.tree is not None and not problem:
            undeclared_field = next(_undeclared_fields(rule, program.tree, below, is_root=below is schema), "")
            problem = f"ERROR: <input>:1:1: undefined field '{undeclared_field}'" if undeclared_field else ""
        if problem:
            yield invalid_value(f"{location}.rule", text, f"compilation failed: {problem}")


def unenforced(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules that cannot be evaluated, with the reason."""
    for rule, location, _ in _all_rules(schema, ""):
        if (problem := compile_rule(str(rule.get("rule", ""))).problem) and not _is_certain(problem, rule["rule"]):
            first = problem.splitlines()[0]
            yield f"{location.removeprefix('.')}: this rule is not enforced: {first}"


def _is_certain(problem: str, text: str) -> bool:
    """Return whether upstream's compiler also rejects an expression: cel-cpp lacks some functions and macros."""
    if "Syntax error" in problem:
        return True
    # Loops with two variables are macros that cel-cpp lacks; their variables appear as undeclared.
    if re.search(r"\(\s*\w+\s*,\s*\w+\s*,", text):
        return False
    names = _UNDECLARED.findall(problem)
    return bool(names) and not any(re.search(rf"\b{re.escape(name)}\s*[.(]", text) for name in names)


def _all_rules(schema: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    for number, rule in enumerate(_rules(schema)):
        yield rule, f"{path}.{RULES}[{number}]", schema
    for name, below in _properties(schema).items():
        if isinstance(below, dict):
            yield from _all_rules(below, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _all_rules(schema[keyword], f"{path}.{keyword}")


def _undeclared_fields(
    rule: Mapping[str, Any], tree: Expression, schema: Mapping[str, Any], *, is_root: bool
) -> Iterator[str]:
    """Yield the fields of ``self`` and ``oldSelf`` in an expression that the schema does not declare."""

    def is_object(parent: Mapping[str, Any]) -> bool:
        return (parent is schema and is_root) or parent.get("x-kubernetes-embedded-resource") is True

    def resolve(node: Expression) -> Mapping[str, Any] | None:
        """Return the schema of a chain of fields, or ``None`` if it is not an object with declared fields."""
        below: Any = None
        if isinstance(node, Name):
            below = schema if node.name in ("self", "oldSelf") and not rule.get("optionalOldSelf") else None
        elif isinstance(node, Select) and (parent := resolve(node.operand)) is not None:
            declared = {escaped(name): part for name, part in _properties(parent).items()}
            below = None if is_object(parent) and node.field in OBJECT_FIELDS else declared.get(node.field)
        is_declared = isinstance(below, dict) and below.get("type") == "object"
        return below if is_declared and not isinstance(below.get("additionalProperties"), dict) else None

    for node in walk(tree):
        if isinstance(node, Select) and (parent := resolve(node.operand)) is not None:
            names = {escaped(name) for name in _properties(parent)}
            if node.field not in names and not (is_object(parent) and node.field in OBJECT_FIELDS):
                yield node.field
