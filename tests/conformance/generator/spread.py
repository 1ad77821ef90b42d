"""Spread constraints of all kinds, and the services and owners of default spreading."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object


def make_constraints(dice: Dice, labels: dict[str, str]) -> list[Object]:
    """Make one to three constraints for a pod with these labels; keys and actions are unique."""
    unique: dict[tuple[str, str], Object] = {}
    for _ in range(dice.pick((1, 1, 2, 3))):
        constraint = _constraint(dice, labels)
        unique[(constraint["topologyKey"], constraint["whenUnsatisfiable"])] = constraint
    return [*unique.values()]


def _constraint(dice: Dice, labels: dict[str, str]) -> Object:
    action = dice.pick(("DoNotSchedule", "ScheduleAnyway"))
    constraint: Object = {
        "maxSkew": dice.pick((1, 1, 1, 2, 3)),
        "topologyKey": dice.pick((words.ZONE, words.ZONE, words.HOSTNAME, words.HOSTNAME, *words.TOPOLOGY_KEYS)),
        "whenUnsatisfiable": action,
    }
    if "app" in labels and dice.chance(0.6):
        constraint["labelSelector"] = {"matchLabels": {"app": labels["app"]}}
    elif dice.chance(0.9):
        constraint["labelSelector"] = words.label_selector(dice)
    if action == "DoNotSchedule" and dice.chance(0.25):
        constraint["minDomains"] = dice.number(1, 4)
    if dice.chance(0.3):
        constraint["nodeAffinityPolicy"] = dice.pick(("Honor", "Ignore"))
    if dice.chance(0.3):
        constraint["nodeTaintsPolicy"] = dice.pick(("Honor", "Ignore"))
    if "labelSelector" in constraint and dice.chance(0.2):
        _add_label_keys(dice, constraint)
    return constraint


def _add_label_keys(dice: Dice, constraint: Object) -> None:
    selector = constraint["labelSelector"]
    keys = {*selector.get("matchLabels", {}), *(item["key"] for item in selector.get("matchExpressions", ()))}
    free = [key for key in (*words.LABELS, "unset") if key not in keys]
    if free:
        constraint["matchLabelKeys"] = dice.some(free, 1, 2)


def make_owners(dice: Dice) -> list[Object]:
    """Make services and controllers that select pods."""
    created: list[Object] = []
    if dice.dial("owners"):
        created += [_service(dice, number) for number in range(dice.number(0, 3))]
        created += [_controller(dice, number) for number in range(dice.number(0, 3))]
    return created


def owner_reference(owner: Object) -> Object:
    """Return the owner reference of a controller's pods."""
    name = owner["metadata"]["name"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name,
        "uid": f"{name}-uid",
        "controller": True,
    }


def _service(dice: Dice, number: int) -> Object:
    spec: Object = {"ports": [{"port": 80}]}
    if dice.chance(0.85):
        spec["selector"] = words.some_labels(dice, words.LABELS, 0.5) or {"app": "web"}
    return words.thing("Service", f"service-{number}", namespace=dice.pick(words.NAMESPACES), spec=spec)


def _controller(dice: Dice, number: int) -> Object:
    kind, api = dice.pick((("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")))
    labels = words.some_labels(dice, words.LABELS, 0.5) or {"app": "db"}
    selector: Object = labels if kind == "ReplicationController" else words.label_selector(dice)
    # Without containers: only its selector matters, and a simulation creates no pods for it.
    spec: Object = {"selector": selector, "template": {"metadata": {"labels": labels}}}
    if kind == "StatefulSet":
        spec["serviceName"] = "service-0"
    if kind == "ReplicationController" and dice.chance(0.3):
        del spec["selector"]
    name = f"owner-{number}"
    metadata = {"uid": f"{name}-uid"}
    return words.thing(kind, name, api=api, namespace=dice.pick(words.NAMESPACES), metadata=metadata, spec=spec)
