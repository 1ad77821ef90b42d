"""ValidatingAdmissionPolicies: rules in CEL that the writes of objects must satisfy.

Expressions are evaluated on untyped data. An expression that cel-cpp cannot compile, such as one with the authorizer,
is not enforced; :func:`unenforced_expressions` reports it when the policy is created.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Store, StoredChange
from moorage.cluster.apiserver.users import ApiUser
from moorage.common.errors import ApiError
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.selectors import LabelSelector, label_matcher
from moorage.kube.api.struct import Data
from moorage.kube.cel.cost import OverBudget
from moorage.kube.cel.expressions import OUT_OF_BUDGET, RuleBudget, RuleVariables, compile_rule
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = f"validatingadmissionpolicies.{GROUP}"
BINDINGS: Final = f"validatingadmissionpolicybindings.{GROUP}"
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
STATUS_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Review:
    """A write that policies may deny; ``new`` is missing for deletions, and ``old`` for creations."""

    resource: ServedResource
    operation: str
    namespace: str
    name: str
    new: Data | None
    old: Data | None
    user: ApiUser
    subresource: str = ""
    is_dry_run: bool = False

    @property
    def objects(self) -> Iterator[Data]:
        """The new and the old object."""
        return (item for item in (self.new, self.old) if item is not None)

    def as_request(self) -> Data:
        """Return the variable ``request`` of expressions."""
        resource = self.resource
        user = {"username": "", "uid": "", "groups": [], "extra": {}, **self.user.data()}
        return {
            "kind": {"group": resource.group, "version": resource.version, "kind": resource.name},
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "subResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": user,
            "dryRun": self.is_dry_run,
        }


class ValidatingPolicies:
    """The policies that bindings enforce with the action Deny."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bound: list[tuple[Data, Data]] | None = None
        store.subscribe(self._changed)

    def _changed(self, resource: str, _change: StoredChange) -> None:
        if resource in (POLICIES, BINDINGS):
            self._bound = None

    @property
    def bound(self) -> list[tuple[Data, Data]]:
        """The policies, each with one of its bindings."""
        if self._bound is None:
            policies = {entry.key: entry.data for entry in self._store.list(POLICIES)}
            bindings = [entry.data for entry in self._store.list(BINDINGS)]
            self._bound = [
                (policies[binding["spec"]["policyName"]], binding)
                for binding in bindings
                if binding["spec"].get("policyName") in policies
                and "Deny" in (binding["spec"].get("validationActions") or ())
            ]
        return self._bound

    def check(self, review: Review) -> None:
        """Raise an ApiError if a policy denies a write; policies do not apply to the configuration of admission."""
        if review.resource.group == GROUP:
            return
        for policy, binding in self.bound:
            limits = (policy["spec"].get("matchConstraints") or {}, binding["spec"].get("matchResources") or {})
            if all(self._matches(match, review) for match in limits):
                for reason, message in self._list_violations(policy["spec"], binding["spec"], review):
                    names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
                    raise _denial(review, reason, f"ValidatingAdmissionPolicy {names} denied request: {message}")

    def _matches(self, match: Mapping[str, Any], review: Review) -> bool:
        is_exact = match.get("matchPolicy") == "Exact"
        if "resourceRules" in match and not any(_covers(rule, review, is_exact) for rule in match["resourceRules"]):
            return False
        if any(_covers(rule, review, is_exact) for rule in match.get("excludeResourceRules") or ()):
            return False
        if review.resource.namespaced or review.resource.storage == "namespaces":
            namespace = self._find_namespace(review)
            if namespace is not None and not _selects(match.get("namespaceSelector"), [namespace]):
                return False
        return _selects(match.get("objectSelector"), review.objects)

    def _find_namespace(self, review: Review) -> Data | None:
        if review.resource.storage == "namespaces":
            return next(review.objects, None)
        entry = self._store.get("namespaces", review.namespace)
        return entry.data if entry is not None else None

    def _list_violations(self, spec: Data, binding: Data, review: Review) -> Iterator[tuple[str, str]]:
        """Yield the reason and the message of each violation; errors are violations unless they are ignored."""
        ignores_errors = spec.get("failurePolicy") == "Ignore"
        parameters = self._find_parameters(spec, binding, review)
        if not parameters and binding["paramRef"].get("parameterNotFoundAction") == "Deny" and not ignores_errors:
            why = "no params found for policy binding with `Deny` parameterNotFoundAction"
            yield "", f"failed to configure binding: {why}"
        namespace = self._find_namespace(review) if review.resource.namespaced else None
        for parameter in parameters:
            values = {
                "object": review.new,
                "oldObject": review.old,
                "request": review.as_request(),
                "params": parameter,
                "namespaceObject": namespace,
            }
            try:
                evaluation = _Evaluation(values, spec.get("variables") or ())
            except OverBudget:
                if not ignores_errors:
                    yield "", OUT_OF_BUDGET
                continue
            for reason, message, is_error in evaluation.list_violations(spec):
                if not (is_error and ignores_errors):
                    yield reason, message

    def _find_parameters(self, spec: Data, binding: Data, review: Review) -> list[Data | None]:
        """Return the objects that the binding refers to; one ``None`` if the policy has no parameters."""
        kind, reference = spec.get("paramKind"), binding.get("paramRef")
        if not kind or not reference:
            return [None]
        storage, is_namespaced = self._find_storage(str(kind.get("apiVersion")), str(kind.get("kind")))
        namespace = reference.get("namespace") or review.namespace
        prefix = f"{namespace}/" if is_namespaced else ""
        if name := reference.get("name"):
            entry = self._store.get(storage, f"{prefix}{name}")
            return [entry.data] if entry is not None else []
        candidates = (entry.data for entry in self._store.list(storage) if entry.key.startswith(prefix))
        return [data for data in candidates if _selects(reference.get("selector"), [data])]

    def _find_storage(self, api_version: str, name: str) -> tuple[str, bool]:
        group = api_version.rpartition("/")[0]
        kind = BY_NAME.get(name)
        if kind is not None and kind.group == group:
            return kind.full_name, kind.namespaced
        for entry in self._store.list(DEFINITIONS):
            spec = entry.data["spec"]
            if (spec["group"], spec["names"]["kind"]) == (group, name):
                return f"{spec['names']['plural']}.{group}", spec["scope"] == "Namespaced"
        return "", True


class _Evaluation:
    """The expressions of one policy for one write; variables that fail are missing where they are used."""

    def __init__(self, values: Mapping[str, Any], variables: Iterable[Data]) -> None:
        self._budget = RuleBudget()
        computed: dict[str, Any] = {}
        self._values = RuleVariables({**values, "variables": computed}, self._budget)
        for variable in variables:
            try:
                computed[variable["name"]] = self._evaluate(variable["expression"])
            except (ValueError, OverBudget):
                continue
            self._values = RuleVariables({**values, "variables": computed}, self._budget)

    def _evaluate(self, text: str) -> Any:
        """Return the result of an expression; ``None`` if it cannot be compiled."""
        program = compile_rule(text, VARIABLES)
        return self._values.evaluate(program) if program.expression is not None else None

    def list_violations(self, spec: Data) -> Iterator[tuple[str, str, bool]]:
        """Yield the reason and the message of each violation, and whether it is an error of an expression."""
        try:
            for condition in spec.get("matchConditions") or ():
                if self._evaluate(condition["expression"]) is False:
                    return
        except (ValueError, OverBudget) as error:
            yield "", f"failed to evaluate a match condition: {error}", True
            return
        for validation in spec.get("validations") or ():
            text = str(validation["expression"]).strip()
            try:
                if self._evaluate(text) is not False:
                    continue
            except ValueError as error:
                yield "", f"expression '{text}' resulted in error: {error}", True
                continue
            except OverBudget:
                yield "", OUT_OF_BUDGET, True
                return
            yield str(validation.get("reason") or ""), self._find_message(validation, text), False

    def _find_message(self, validation: Data, text: str) -> str:
        if validation.get("messageExpression"):
            try:
                message = self._evaluate(validation["messageExpression"])
            except (ValueError, OverBudget):
                message = None
            if isinstance(message, str) and message.strip() and "\n" not in message.strip():
                return message.strip()
        return str(validation.get("message") or "").strip() or f"failed expression: {text}"


def _covers(rule: Mapping[str, Any], review: Review, is_exact: bool) -> bool:
    resource = review.resource

    def is_listed(field: str, text: str) -> bool:
        return not {"*", text}.isdisjoint(rule.get(field) or ())

    scope = "Namespaced" if resource.namespaced else "Cluster"
    names = rule.get("resourceNames") or ()
    return (
        is_listed("operations", review.operation)
        and is_listed("apiGroups", resource.group)
        and (not is_exact or is_listed("apiVersions", resource.version))
        and any(_is_resource(pattern, resource.plural, review.subresource) for pattern in rule.get("resources") or ())
        and rule.get("scope", "*") in ("*", scope)
        and (not names or review.name in names)
    )


def _is_resource(pattern: str, plural: str, subresource: str) -> bool:
    """Return whether a pattern covers a resource.

    >>> _is_resource("*", "pods", ""), _is_resource("*", "pods", "status"), _is_resource("pods/*", "pods", "status")
    (True, False, True)
    """
    name, slash, part = pattern.partition("/")
    return name in ("*", plural) and (part in ("*", subresource) if slash else not subresource)


def _selects(selector: Any, objects: Iterable[Data]) -> bool:
    """Return whether a selector selects one of some objects; an empty one selects everything."""
    if not selector:
        return True
    matcher = label_matcher(convert(LabelSelector, selector))
    return any(matcher.matches(item["metadata"].get("labels") or {}) for item in objects)


def _denial(review: Review, reason: str, message: str) -> ApiError:
    reason = reason or "Invalid"
    error = forbidden(review.resource, review.name, message)
    details = {**error.details, "causes": [{"message": message}]}
    return ApiError(str(error), status=STATUS_CODES.get(reason, 422), reason=reason, details=details)


def unenforced_expressions(policy: Mapping[str, Any]) -> Iterator[str]:
    """Yield the expressions of a policy that cannot be evaluated, with the reason."""
    spec = policy.get("spec") or {}
    for field in ("variables", "matchConditions", "validations"):
        for number, item in enumerate(spec.get(field) or ()):
            if problem := compile_rule(str(item.get("expression", "")), VARIABLES).problem:
                yield f"spec.{field}[{number}]: this expression is not enforced: {problem.splitlines()[0]}"
