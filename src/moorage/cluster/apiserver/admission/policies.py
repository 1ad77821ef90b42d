"""Admission policies in CEL: which writes they cover, their parameters, and the evaluation of their expressions.

Expressions are evaluated on untyped data. An expression that cel-cpp cannot compile, such as one with the authorizer,
is not enforced. :func:`unenforced_expressions` reports it when the policy is created.
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
from moorage.kube.cel.tokens import with_plain_maps
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = (f"validatingadmissionpolicies.{GROUP}", f"mutatingadmissionpolicies.{GROUP}")
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")


@dataclass(frozen=True, slots=True)
class Review:
    """A write that policies may deny. ``new`` is missing for deletions, and ``old`` for creations."""

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


class PolicyError(Exception):
    """An expression or a parameter of a policy is missing or fails. ``failurePolicy`` decides what follows."""


class BoundPolicies:
    """The policies of a kind that have bindings."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._policies, self._bindings = f"{kind}policies.{GROUP}", f"{kind}policybindings.{GROUP}"
        self._cached_pairs: list[tuple[Data, Data]] | None = None
        store.subscribe(self._on_change)

    def _on_change(self, resource: str, _change: StoredChange) -> None:
        if resource in (self._policies, self._bindings):
            self._cached_pairs = None

    @property
    def bound(self) -> list[tuple[Data, Data]]:
        """The policies, each with one of its bindings."""
        if self._cached_pairs is None:
            policies = {entry.key: entry.data for entry in self._store.list(self._policies)}
            bindings = [entry.data for entry in self._store.list(self._bindings)]
            self._cached_pairs = [
                (policies[binding["spec"]["policyName"]], binding)
                for binding in bindings
                if binding["spec"].get("policyName") in policies
            ]
        return self._cached_pairs

    def covering(self, review: Review) -> Iterator[tuple[Data, Data]]:
        """Yield the policies and bindings that cover a write; none covers the configuration of admission."""
        if review.resource.group == GROUP:
            return
        for policy, binding in self.bound:
            limits = (policy["spec"].get("matchConstraints") or {}, binding["spec"].get("matchResources") or {})
            if all(self._matches(match, review) for match in limits):
                yield policy, binding

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

    def find_parameters(self, policy: Data, binding: Data, review: Review) -> list[Data | None]:
        """Return the objects that a binding refers to; one ``None`` if the policy has no parameters.

        Raise PolicyError if the binding requires an object, and none exists.
        """
        spec, reference = policy["spec"], binding["spec"].get("paramRef") or {}
        parameters = self._find_parameters(spec, reference, review)
        if not parameters and reference.get("parameterNotFoundAction") == "Deny":
            reason = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise PolicyError(f"failed to configure binding: {reason}")
        return parameters

    def evaluation(self, policy: Data, parameter: Data | None, review: Review) -> "PolicyEvaluation":
        """Return the evaluation of a policy for a write. Raise PolicyError if its variables are too expensive."""
        values = {
            "object": review.new,
            "oldObject": review.old,
            "request": review.as_request(),
            "params": parameter,
            "namespaceObject": self._find_namespace(review) if review.resource.namespaced else None,
        }
        return PolicyEvaluation(values, policy["spec"])

    def _find_parameters(self, spec: Data, reference: Data, review: Review) -> list[Data | None]:
        kind = spec.get("paramKind")
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


class PolicyEvaluation:
    """The expressions of a policy for one write. Variables that fail are missing where they are used."""

    def __init__(self, values: Mapping[str, Any], spec: Data) -> None:
        self._budget = RuleBudget()
        self._spec = spec
        computed: dict[str, Any] = {}
        try:
            self._values = RuleVariables({**values, "variables": computed}, self._budget)
            for variable in spec.get("variables") or ():
                try:
                    computed[variable["name"]] = self.evaluate(variable["expression"])
                except PolicyError:
                    continue
                self._values = RuleVariables({**values, "variables": computed}, self._budget)
        except OverBudget as error:
            raise PolicyError(OUT_OF_BUDGET) from error

    def evaluate(self, text: str) -> Any:
        """Return the result of an expression, ``None`` if it cannot be compiled. Raise PolicyError if it fails."""
        program = compile_rule(with_plain_maps(text), VARIABLES)
        if program.expression is None:
            return None
        try:
            return self._values.evaluate(program)
        except ValueError as error:
            raise PolicyError(f"expression '{text}' resulted in error: {error}") from error
        except OverBudget as error:
            raise PolicyError(OUT_OF_BUDGET) from error

    def is_applicable(self) -> bool:
        """Return whether no match condition is false. Raise PolicyError if one fails and no other is false."""
        problems = []
        for condition in self._spec.get("matchConditions") or ():
            try:
                if self.evaluate(condition["expression"]) is False:
                    return False
            except PolicyError as error:
                problems.append(str(error))
        if problems:
            raise PolicyError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        return True


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
    """Return whether a selector selects one of some objects. An empty one selects everything."""
    if not selector:
        return True
    matcher = label_matcher(convert(LabelSelector, selector))
    return any(matcher.matches(item["metadata"].get("labels") or {}) for item in objects)


def denial(review: Review, message: str) -> ApiError:
    """Return the error for a denied write."""
    error = forbidden(review.resource, review.name, message)
    error.details = {**error.details, "causes": [{"message": message}]}
    return error


def unenforced_expressions(policy: Mapping[str, Any]) -> Iterator[str]:
    """Yield the expressions of a policy that cannot be evaluated, with the reason."""
    spec = policy.get("spec") or {}
    for field in ("variables", "matchConditions", "validations", "mutations"):
        for number, item in enumerate(spec.get(field) or ()):
            holder = item.get("applyConfiguration") or item.get("jsonPatch") or item
            if problem := compile_rule(with_plain_maps(str(holder.get("expression", ""))), VARIABLES).problem:
                yield f"spec.{field}[{number}]: this expression is not enforced: {problem.splitlines()[0]}"
