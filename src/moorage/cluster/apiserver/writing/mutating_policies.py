"""MutatingAdmissionPolicies: changes in CEL that are applied to objects before they are validated and stored."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from moorage.cluster.apiserver.admission.policies import BoundPolicies, PolicyError, Review, denial
from moorage.cluster.apiserver.storage.store import Store
from moorage.cluster.apiserver.writing.field_types import FieldType, FieldTypes
from moorage.cluster.apiserver.writing.field_values import MissingKey, merge
from moorage.common.errors import ApiError
from moorage.kube.api.struct import Data
from moorage.kube.patches import FailedTest, json_patch
from moorage.kube.schema import find_kind_schema, unknown_fields

Invocation = tuple[Data, Data, Data | None]
"""A policy, its binding, and a parameter."""


class MutatingPolicies(BoundPolicies):
    """The policies that change new and updated objects. ``complete`` sets the defaults of a changed object."""

    def __init__(self, store: Store, types: FieldTypes) -> None:
        super().__init__(store, "mutatingadmission")
        self._types = types

    def mutate(self, review: Review, complete: Callable[[Data], Data]) -> Data:
        """Return the new object of a write after all mutations. Raise an ApiError if a mutation fails."""
        assert review.new is not None
        invocations: list[Invocation] = []
        for policy, binding in self.covering(review):
            try:
                parameters = self.find_parameters(policy, binding, review)
            except PolicyError as error:
                self._fail(policy, binding, review, str(error), "Forbidden")
                continue
            invocations += ((policy, binding, parameter) for parameter in parameters)
        if not invocations:
            return review.new
        review = replace(review, new=complete(review.new))
        repeated = []
        for invocation in invocations:
            new_content = self._invoke(invocation, review, complete)
            if new_content is not None:
                review = new_content
                if invocation[0]["spec"].get("reinvocationPolicy") == "IfNeeded":
                    repeated.append(invocation)
        # Such policies may depend on changes of other policies.
        for invocation in repeated:
            review = self._invoke(invocation, review, complete) or review
        assert review.new is not None
        return review.new

    def _invoke(self, invocation: Invocation, review: Review, complete: Callable[[Data], Data]) -> Review | None:
        """Return the write after the mutations of a policy, or ``None`` if a condition is false."""
        policy, binding, parameter = invocation
        try:
            if not self.evaluation(policy, parameter, review).is_applicable():
                return None
            for mutation in policy["spec"]["mutations"]:
                assert review.new is not None
                text = str((mutation.get("applyConfiguration") or mutation["jsonPatch"])["expression"]).strip()
                # The variables of a policy see the changes of its previous mutations.
                result = self.evaluation(policy, parameter, review).evaluate(text)
                if result is not None:
                    patched = self._patch(mutation["patchType"], review.new, result)
                    review = replace(review, new=complete(patched))
        except PolicyError as error:
            self._fail(policy, binding, review, str(error), "Invalid")
        return review

    def _patch(self, patch_type: str, data: Data, result: Any) -> Data:
        if patch_type == "JSONPatch":
            try:
                patched: Data = json_patch(data, result)
            except FailedTest:
                return data
            except ApiError as error:
                raise PolicyError(f"JSON Patch: {error}") from error
            if unknown := _unknown_fields(patched):
                reason = f'strict decoding error: unknown field "{unknown[0]}"'
                raise ApiError(f"Internal error occurred: {reason}", status=500, reason="InternalError")
            return patched
        kind = self._types.find(data)
        if not isinstance(result, dict):
            raise PolicyError("invalid return type: an Object is expected")
        if unknown := _unknown_fields({**result, "apiVersion": data["apiVersion"], "kind": data["kind"]}):
            reason = f".{unknown[0]}: field not declared in schema"
            raise PolicyError(f"error applying patch: failed to convert patch object to typed object: {reason}")
        if atomic := list(_atomic_paths(result, kind)):
            reason = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
            raise PolicyError(f"error applying patch: invalid ApplyConfiguration: {reason}")
        try:
            merged_object: Data = merge(data, result, kind)
        except MissingKey as error:
            raise PolicyError(f"error applying patch: {error}") from error
        return merged_object

    def _fail(self, policy: Data, binding: Data, review: Review, problem: str, reason: str) -> None:
        if policy["spec"].get("failurePolicy") != "Ignore":
            names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
            text = f"policy {names} denied request: {problem}"
            raise ApiError(text, status=403, reason=reason, details=denial(review, text).details)


def _unknown_fields(data: Data) -> list[str]:
    schema = find_kind_schema(str(data.get("apiVersion")), str(data.get("kind")))
    return list(unknown_fields(data, schema)) if schema is not None else []


def _atomic_paths(value: Any, kind: FieldType, path: str = "") -> Iterator[str]:
    """Yield the paths of values that a patch replaces as a whole."""
    if isinstance(value, dict):
        if kind.is_atomic and path:
            yield path
        for name, content in value.items():
            if kind.declares(name):
                yield from _atomic_paths(content, kind.below(name), f"{path}.{name}")
    elif isinstance(value, list):
        if kind.list_type == "atomic":
            yield path
        for number, item in enumerate(value):
            yield from _atomic_paths(item, kind.below(""), f"{path}[{number}]")
