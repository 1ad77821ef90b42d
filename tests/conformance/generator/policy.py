"""Priority classes, disruption budgets and namespaces."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.pods import PRIORITY_CLASSES
from tests.conformance.generator.words import Object


def make_priority_classes(dice: Dice) -> list[Object]:
    """Make some classes; one of them may be the global default, one never preempts."""
    if not dice.dial("priorities"):
        return []
    default = dice.pick((None, None, *(name for name, _ in PRIORITY_CLASSES)))
    return [_priority_class(name, value, default) for name, value in dice.some(PRIORITY_CLASSES, 1)]


def _priority_class(name: str, value: int, default: str | None) -> Object:
    created = words.thing("PriorityClass", name, api="scheduling.k8s.io/v1")
    created["value"] = value
    if name == default:
        created["globalDefault"] = True
    if name == "polite":
        created["preemptionPolicy"] = "Never"
    return created


def make_budgets(dice: Dice, pods: list[Object]) -> list[Object]:
    """Make budgets that protect different pods: upstream evaluates overlapping ones in random order."""
    if not dice.dial("budgets"):
        return []
    namespaces = dice.some(words.NAMESPACES, 1)
    return [budget for namespace in namespaces for budget in _budgets(dice, namespace, pods)]


def _budgets(dice: Dice, namespace: str, pods: list[Object]) -> list[Object]:
    if dice.chance(0.15):
        selectors: list[Object] = [{}]
    else:
        selectors = [{"matchLabels": {"app": app}} for app in dice.some(words.LABELS["app"], 1)]
    return [_budget(dice, namespace, number, selector, pods) for number, selector in enumerate(selectors)]


def _budget(dice: Dice, namespace: str, number: int, selector: Object, pods: list[Object]) -> Object:
    status: Object = {"disruptionsAllowed": dice.pick((0, 0, 1, 2))}
    if pods and dice.chance(0.2):
        status["disruptedPods"] = {dice.pick(pods)["metadata"]["name"]: "2026-01-01T00:00:00Z"}
    spec = {"selector": selector, "minAvailable": 1}
    return words.thing(
        "PodDisruptionBudget", f"budget-{number}", api="policy/v1", namespace=namespace, spec=spec, status=status
    )


def make_namespaces(dice: Dice) -> list[Object]:
    """Describe some of the namespaces; the others are created implicitly."""
    return [
        words.thing("Namespace", name, metadata={"labels": words.some_labels(dice, words.NAMESPACE_LABELS)})
        for name in dice.some(words.NAMESPACES)
    ]
