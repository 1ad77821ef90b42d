"""Groups that need devices: the released devices, and the untouched ones."""

from typing import Any, Final

from tests.parity.group_rows.parts import GROUPS, SCHEDULE, TOPOLOGY, Json, Row, apply, group, node, pod

CLAIMS: Final = {**GROUPS, "DRAWorkloadResourceClaims": True}
DRIVER: Final = "gpu.example.com"
SHARED: Final[Json] = {"name": "net", "resourceClaimName": "fabric"}
OWN: Final[Json] = {"name": "mine", "resourceClaimName": "own"}
#: The group, as its claims name it.
USER: Final[Json] = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g-uid"}


def _thing(kind: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _claim(name: str, device: str, reach: str, *users: Json) -> Json:
    """Make a claim with a device that one node reaches."""
    spec = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [reach]}]}]
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}
    return _thing("ResourceClaim", name, devices=spec) | {
        "status": {"allocation": allocation, "reservedFor": list(users)}
    }


def _group(least: int, **spec: Any) -> Json:
    created = group("g", least, resourceClaims=[SHARED], **spec)
    created["metadata"]["uid"] = USER["uid"]
    return created


def _member(name: str, *entries: Json, cpu: str = "1") -> Json:
    return pod(name, "g", cpu=cpu, spec={"resourceClaims": list(entries)})


POOL: Final = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
#: A node of two CPUs with two devices, and a lower-priority pod that does not help if evicted.
WORLD: Final[list[Json]] = [
    node("n1", "2"),
    pod("low", priority=10, on="n1", cpu="1m"),
    _thing("DeviceClass", "gpu"),
    _thing("ResourceSlice", "s", driver=DRIVER, nodeName="n1", pool=POOL, devices=[{"name": "d0"}, {"name": "d1"}]),
]
AWAY: Final = _claim("fabric", "d0", "elsewhere", USER)
HERE: Final = _claim("fabric", "d0", "n1", USER)
BIG: Final = [_member("a", SHARED, cpu="2"), _member("b", SHARED, cpu="2")]
BY_NODE: Final[Json] = {"by": "kubernetes.io/hostname"}

CLAIM_ROWS: Final[dict[str, Row]] = {
    "D4 devices that no member can reach are released": (
        CLAIMS,
        [*apply(WORLD, AWAY, _group(2), _member("a", SHARED), _member("b", SHARED)), *SCHEDULE],
    ),
    "D5 devices in reach are no longer reserved": (CLAIMS, [*apply(WORLD, HERE, _group(2), BIG), *SCHEDULE]),
    "D6 a member runs": (
        CLAIMS,
        [*apply(WORLD, AWAY, _group(2), pod("x", "g", on="n1", cpu="500m"), _member("a", SHARED)), *SCHEDULE],
    ),
    "D6 the group must run on one node": (
        {**CLAIMS, **TOPOLOGY},
        [*apply(WORLD, AWAY, _group(2, **BY_NODE), _member("a", SHARED), _member("b", SHARED)), *SCHEDULE],
    ),
    "D6 the gate is off, out of reach": (
        GROUPS,
        [*apply(WORLD, AWAY, _group(2), _member("a", SHARED), _member("b", SHARED)), *SCHEDULE],
    ),
    "D6 the gate is off, in reach": (GROUPS, [*apply(WORLD, HERE, _group(2), BIG), *SCHEDULE]),
    "D7 one of two members releases its own claim": (
        CLAIMS,
        [
            *apply(WORLD, HERE, _claim("own", "d1", "elsewhere"), _group(1)),
            *apply(_member("a", SHARED, OWN), _member("b", SHARED, cpu="3")),
            *SCHEDULE,
        ],
    ),
}
