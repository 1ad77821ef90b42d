"""ValidatingAdmissionPolicies: rules in CEL that the writes of objects must satisfy."""

from collections.abc import Iterator
from typing import Final

from moorage.cluster.apiserver.admission.policies import BoundPolicies, PolicyError, PolicyEvaluation, Review, denial
from moorage.cluster.apiserver.storage.store import Store
from moorage.common.errors import ApiError
from moorage.kube.api.struct import Data

STATUS_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class ValidatingPolicies(BoundPolicies):
    """The policies that bindings enforce with the action Deny."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "validatingadmission")

    def check(self, review: Review) -> None:
        """Raise an ApiError if a policy denies a write."""
        for policy, binding in self.covering(review):
            if "Deny" not in (binding["spec"].get("validationActions") or ()):
                continue
            for reason, message in self._list_violations(policy, binding, review):
                names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
                error = denial(review, f"ValidatingAdmissionPolicy {names} denied request: {message}")
                code = STATUS_CODES.get(reason, 422)
                raise ApiError(str(error), status=code, reason=reason, details=error.details)

    def _list_violations(self, policy: Data, binding: Data, review: Review) -> Iterator[tuple[str, str]]:
        """Yield the reason and the message of each violation. Errors are violations unless they are ignored."""
        ignores_errors = policy["spec"].get("failurePolicy") == "Ignore"
        try:
            for parameter in self.find_parameters(policy, binding, review):
                evaluation = self.evaluation(policy, parameter, review)
                if not evaluation.is_applicable():
                    continue
                for validation in policy["spec"].get("validations") or ():
                    text = str(validation["expression"]).strip()
                    try:
                        if evaluation.evaluate(text) is False:
                            message = _find_message(evaluation, validation, text)
                            yield str(validation.get("reason") or "Invalid"), message
                    except PolicyError as error:
                        if not ignores_errors:
                            yield "Invalid", str(error)
        except PolicyError as error:
            if not ignores_errors:
                yield "Invalid", str(error)


def _find_message(evaluation: PolicyEvaluation, validation: Data, text: str) -> str:
    if validation.get("messageExpression"):
        try:
            message = evaluation.evaluate(validation["messageExpression"])
        except PolicyError:
            message = None
        if isinstance(message, str) and message.strip() and "\n" not in message.strip():
            return message.strip()
    return str(validation.get("message") or "").strip() or f"failed expression: {text}"
