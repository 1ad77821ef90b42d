"""The words of generated clusters: few, so that names and labels collide."""

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.generator.dice import Dice

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"

LABELS: Final = {"app": ("web", "db", "cache"), "tier": ("front", "back"), "rev": ("1", "2")}
NODE_LABELS: Final = {"disk": ("ssd", "hdd", ""), "gen": ("1", "3", "7", "007", "old"), "rack": ("r1", "r2", "r3")}
TOPOLOGY_KEYS: Final = (ZONE, HOSTNAME, "rack", REGION, "absent")
NAMESPACES: Final = ("default", "team-a", "team-b")
NAMESPACE_LABELS: Final = {"env": ("prod", "dev"), "team": ("a", "b")}
TAINT_KEYS: Final = ("dedicated", "spot", "gpu")
TAINT_VALUES: Final = ("", "a", "b", "7")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES: Final = (
    "web",
    "web:v1",
    "registry.example:5000/team/db",
    "registry.example/team/cache:latest",
    "tool@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
)
CPU: Final = ("100m", "250m", "0.5", "1", 1, "1500m", "2", "5e-1", "333m", "100u")
MEMORY: Final = ("64Mi", "128Mi", "256M", "0.5Gi", "1Gi", 536870912, "1e8", "700000k", "1.5Gi")
EXTENDED: Final = ("example.com/gpu", "example.com/fpga", "acme.io/license")
SCHEDULERS: Final = ("default-scheduler", "second-scheduler")

Object = dict[str, Any]


def some_labels(dice: Dice, words: Mapping[str, tuple[str, ...]], share: float = 0.7) -> dict[str, str]:
    """Return some labels."""
    return {key: dice.pick(values) for key, values in words.items() if dice.chance(share)}


def label_selector(dice: Dice, words: Mapping[str, tuple[str, ...]] = LABELS) -> Object:
    """Return a selector: labels, expressions, both, or everything."""
    if dice.chance(0.08):
        return {}
    selector: Object = {}
    if dice.chance(0.75):
        selector["matchLabels"] = {key: dice.pick(words[key]) for key in dice.some(tuple(words), 1, 2)}
    if not selector or dice.chance(0.3):
        selector["matchExpressions"] = [label_requirement(dice, words) for _ in range(dice.number(1, 2))]
    return selector


def label_requirement(dice: Dice, words: Mapping[str, tuple[str, ...]]) -> Object:
    """Make one expression with any operator of a label selector."""
    key = dice.pick((*words, "absent"))
    operator = dice.pick(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": dice.some((*words.get(key, ("x",)), "other"), 1, 2)}


def thing(kind: str, name: str, *, api: str = "v1", namespace: str = "", **parts: Any) -> Object:
    """Assemble an object; empty parts are omitted."""
    metadata: Object = {"name": name, **parts.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **{key: part for key, part in parts.items() if part}}
