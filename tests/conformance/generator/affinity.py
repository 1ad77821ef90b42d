"""Placement constraints: node selectors, node affinity, and affinity and anti-affinity to other pods."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def make_affinity(dice: Dice, nodes: list[str]) -> Object:
    """Make an affinity with the topics of this cluster; empty without any."""
    affinity: Object = {}
    if dice.wants("nodeAffinity"):
        affinity["nodeAffinity"] = node_affinity(dice, nodes)
    if dice.wants("podAffinity", 0.6):
        affinity["podAffinity"] = _pod_affinity(dice)
    if dice.wants("podAntiAffinity", 0.6):
        affinity["podAntiAffinity"] = _pod_affinity(dice)
    return affinity


def make_node_selector(dice: Dice) -> dict[str, str] | None:
    """Require a node label or two."""
    if dice.chance(0.05):
        return {}
    return {key: dice.pick(words.NODE_LABELS[key]) for key in dice.some(tuple(words.NODE_LABELS), 1, 2)}


def node_affinity(dice: Dice, nodes: list[str]) -> Object:
    """Make required or preferred terms over labels and names of nodes, or both."""
    affinity: Object = {}
    if dice.chance(0.6):
        by_name = dice.chance(0.25)
        terms = [_name_term(dice, nodes) if by_name else _node_term(dice, nodes) for _ in range(dice.number(1, 3))]
        affinity[REQUIRED] = {"nodeSelectorTerms": terms}
    if not affinity or dice.chance(0.4):
        affinity[PREFERRED] = [
            {"weight": dice.number(1, 100), "preference": _node_term(dice, nodes)} for _ in range(dice.number(0, 3))
        ]
    return affinity


def _node_term(dice: Dice, nodes: list[str]) -> Object:
    if dice.chance(0.04):
        return {}
    term: Object = {}
    if dice.chance(0.9):
        term["matchExpressions"] = [_node_requirement(dice) for _ in range(dice.number(1, 2))]
    if not term or dice.chance(0.15):
        term["matchFields"] = [_field_requirement(dice, nodes)]
    return term


def _name_term(dice: Dice, nodes: list[str]) -> Object:
    term: Object = {
        "matchFields": [_field_requirement(dice, nodes, operator="In") for _ in range(dice.pick((1, 1, 1, 2)))]
    }
    if dice.chance(0.2):
        term["matchExpressions"] = [_node_requirement(dice)]
    return term


def _field_requirement(dice: Dice, nodes: list[str], operator: str = "") -> Object:
    name = dice.pick((*nodes, *nodes, "nowhere"))
    return {"key": "metadata.name", "operator": operator or dice.pick(("In", "NotIn")), "values": [name]}


def _node_requirement(dice: Dice) -> Object:
    operator = dice.pick(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {
            "key": dice.pick(("gen", "gen", "gen", "disk")),
            "operator": operator,
            "values": [dice.pick(("0", "2", "6", "007"))],
        }
    key = dice.pick((*words.NODE_LABELS, words.ZONE, words.HOSTNAME, "absent"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    existing = words.NODE_LABELS.get(key, ("z1", "z2", "n1", "n2"))
    return {"key": key, "operator": operator, "values": dice.some(existing, 1, 2)}


def _pod_affinity(dice: Dice) -> Object:
    affinity: Object = {}
    if dice.chance(0.6):
        affinity[REQUIRED] = [_pod_term(dice) for _ in range(dice.pick((1, 1, 2, 3)))]
    if not affinity or dice.chance(0.4):
        affinity[PREFERRED] = [
            {"weight": dice.number(1, 100), "podAffinityTerm": _pod_term(dice)} for _ in range(dice.pick((1, 1, 2, 3)))
        ]
    return affinity


def _pod_term(dice: Dice) -> Object:
    term: Object = {"topologyKey": dice.pick((words.ZONE, words.HOSTNAME, *words.TOPOLOGY_KEYS))}
    if dice.chance(0.95):
        term["labelSelector"] = words.label_selector(dice)
    if dice.chance(0.2):
        term["namespaces"] = dice.some((*words.NAMESPACES, "nowhere"), 1, 2)
    if dice.chance(0.25):
        term["namespaceSelector"] = words.label_selector(dice, words.NAMESPACE_LABELS)
    if "labelSelector" in term and dice.chance(0.2):
        _add_label_keys(dice, term)
    return term


def _add_label_keys(dice: Dice, term: Object) -> None:
    """Return labels of the pod; an API server rejects labels in the selector."""
    selector = term["labelSelector"]
    selected_keys = {*selector.get("matchLabels", {}), *(item["key"] for item in selector.get("matchExpressions", ()))}
    free = [key for key in (*words.LABELS, "unset") if key not in selected_keys]
    if not free:
        return
    keys = dice.some(free, 1, 2)
    term["matchLabelKeys" if dice.chance(0.5) else "mismatchLabelKeys"] = keys
