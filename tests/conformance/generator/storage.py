"""Volumes: classes, volumes, claims, drivers and their limits, and pods that use them."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

API = "storage.k8s.io/v1"
DRIVERS = ("disk.csi.example", "file.csi.example")
IN_TREE = "kubernetes.io/gce-pd"
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def equip(dice: Dice, nodes: list[Object], running: list[Object], pending: list[Object]) -> list[Object]:
    """Add volumes to pods, and create all objects that the volumes refer to."""
    classes = [_storage_class(dice, name) for name in ("fast", "slow", "manual", "now") if dice.chance(0.9)]
    names = [node["metadata"]["name"] for node in nodes]
    namespaces = sorted({pod["metadata"].get("namespace", "default") for pod in (*running, *pending)})
    claims = [
        _claim(dice, f"claim-{number}", namespace, names)
        for namespace in namespaces
        for number in range(dice.number(2, 5))
    ]
    volumes = _volumes(dice, claims, names)
    created = [*classes, *volumes, *claims, *_drivers(dice), *_csi_nodes(dice, names), *_capacities(dice)]
    created += _attachments(dice, volumes, names)
    for pod in (*running, *pending):
        created += _mount(
            dice,
            pod,
            [
                claim
                for claim in claims
                if claim["metadata"]["namespace"] == pod["metadata"].get("namespace", "default")
            ],
        )
    return created


def _storage_class(dice: Dice, name: str) -> Object:
    created = words.thing("StorageClass", name, api=API)
    created["provisioner"] = {"manual": "kubernetes.io/no-provisioner", "slow": dice.pick((DRIVERS[1], IN_TREE))}.get(
        name, DRIVERS[0]
    )
    created["volumeBindingMode"] = "Immediate" if name == "now" else "WaitForFirstConsumer"
    if name == "fast" and dice.chance(0.4):
        expressions = [{"key": words.ZONE, "values": dice.some(("z1", "z2", "z3"), 1, 2)}]
        created["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
    return created


def _claim(dice: Dice, name: str, namespace: str, nodes: list[str]) -> Object:
    spec: Object = {
        "accessModes": [dice.pick((*MODES, "ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany"))],
        "resources": {"requests": {"storage": dice.pick(("1Gi", "2Gi", "5Gi"))}},
    }
    if dice.chance(0.95):
        spec["storageClassName"] = dice.pick((*("fast",) * 5, *("manual",) * 3, *("slow",) * 2, "now", "gone", ""))
    if dice.chance(0.1):
        spec["selector"] = {"matchLabels": {"grade": dice.pick(("gold", "tin"))}}
    if dice.chance(0.1):
        spec["volumeMode"] = "Block"
    metadata: Object = {"uid": f"{namespace}-{name}-uid"}
    if dice.chance(0.08) and nodes:
        metadata["annotations"] = {SELECTED_NODE: dice.pick(nodes)}
    claim = words.thing("PersistentVolumeClaim", name, namespace=namespace, metadata=metadata, spec=spec)
    if dice.chance(0.03):
        claim["status"] = {"phase": "Lost"}
    if dice.chance(0.02):
        claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return claim


def _volumes(dice: Dice, claims: list[Object], nodes: list[str]) -> list[Object]:
    """Bind some of the claims, and add unused volumes; sizes are unique, because ties are random."""
    created = [_bound_volume(dice, claim, number, nodes) for number, claim in enumerate(claims) if dice.chance(0.3)]
    created = [volume for volume in created if not dice.chance(0.04)]
    for number in range(dice.number(0, 5)):
        volume = _volume(dice, f"free-{number}", 1024 + 512 * number + dice.number(0, 7), nodes)
        volume["status"] = {"phase": dice.pick(("Available", "Available", "Available", "Released"))}
        if claims and dice.chance(0.1):
            owner = dice.pick(claims)["metadata"]
            volume["spec"]["claimRef"] = {"name": owner["name"], "namespace": owner["namespace"]}
        created.append(volume)
    return created


def _bound_volume(dice: Dice, claim: Object, number: int, nodes: list[str]) -> Object:
    owner = claim["metadata"]
    name = f"pv-{number}"
    volume = _volume(dice, name, 6000 + number, nodes)
    volume["spec"]["claimRef"] = {"name": owner["name"], "namespace": owner["namespace"], "uid": owner["uid"]}
    volume["spec"]["accessModes"] = claim["spec"]["accessModes"]
    volume["status"] = {"phase": "Bound"}
    claim["spec"]["volumeName"] = name
    if dice.chance(0.95):
        owner.setdefault("annotations", {})[BIND_COMPLETED] = "yes"
        claim["status"] = {"phase": "Bound"}
    return volume


def _volume(dice: Dice, name: str, mebibytes: int, nodes: list[str]) -> Object:
    spec: Object = {
        "capacity": {"storage": f"{mebibytes}Mi"},
        "accessModes": dice.some(MODES[:3], 1),
        "storageClassName": dice.pick(("fast", "slow", "manual", "manual", "manual")),
        "persistentVolumeReclaimPolicy": "Retain",
        **_source(dice, name),
    }
    if dice.chance(0.4):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_volume_term(dice, nodes)]}}
    if dice.chance(0.08):
        spec["volumeMode"] = "Block"
    labels = {"grade": dice.pick(("gold", "tin"))} if dice.chance(0.5) else {}
    if dice.chance(0.15):
        labels[dice.pick((words.ZONE, words.BETA_ZONE))] = dice.pick(("z1", "z2", "z1__z3"))
    if dice.chance(0.05):
        labels[words.REGION] = "r-east"
    return words.thing("PersistentVolume", name, metadata={"labels": labels}, spec=spec)


def _source(dice: Dice, name: str) -> Object:
    if dice.chance(0.15):
        return {"gcePersistentDisk": {"pdName": f"disk-{name}"}}
    return {"csi": {"driver": dice.pick(DRIVERS), "volumeHandle": f"handle-{name}"}}


def _volume_term(dice: Dice, nodes: list[str]) -> Object:
    if nodes and dice.chance(0.5):
        return {"matchExpressions": [{"key": words.HOSTNAME, "operator": "In", "values": dice.some(nodes, 1, 3)}]}
    return {"matchExpressions": [{"key": words.ZONE, "operator": "In", "values": dice.some(("z1", "z2", "z3"), 1, 2)}]}


def _drivers(dice: Dice) -> list[Object]:
    created = []
    for name in dice.some(DRIVERS, 2 if dice.dial("capacities") else 1):
        spec: Object = {"storageCapacity": dice.chance(0.9 if dice.dial("capacities") else 0.5)}
        if name == DRIVERS[0] and dice.chance(0.3):
            spec["preventPodSchedulingIfMissing"] = True
        created.append(words.thing("CSIDriver", name, api=API, spec=spec))
    return created


def _csi_nodes(dice: Dice, nodes: list[str]) -> list[Object]:
    created = []
    for name in nodes:
        if dice.chance(0.75):
            drivers = [_node_driver(dice, driver, name) for driver in dice.some((*DRIVERS, "pd.csi.storage.gke.io"))]
            metadata: Object = {}
            if dice.chance(0.5):
                metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": IN_TREE}
            created.append(
                words.thing(
                    "CSINode",
                    name,
                    api=API,
                    metadata=metadata,
                    spec={"drivers": drivers} if drivers else {"drivers": []},
                )
            )
    return created


def _node_driver(dice: Dice, driver: str, node: str) -> Object:
    obj: Object = {"name": driver, "nodeID": node, "topologyKeys": []}
    if dice.chance(0.7):
        obj["allocatable"] = {"count": dice.number(0, 3)}
    return obj


def _capacities(dice: Dice) -> list[Object]:
    """Make storage capacities; at most one per class and zone, because the first match counts."""
    created = []
    for storage_class in ("fast", "slow"):
        for zone in dice.some(("z1", "z2", "z3"), 3 if dice.dial("capacities") else 0):
            capacity = words.thing("CSIStorageCapacity", f"{storage_class}-{zone}", api=API, namespace="default")
            capacity["storageClassName"] = storage_class
            capacity["nodeTopology"] = {"matchLabels": {words.ZONE: zone}}
            capacity["capacity"] = dice.pick(("1Gi", "4Gi", "20Gi", "50Gi"))
            if dice.chance(0.3):
                capacity["maximumVolumeSize"] = dice.pick(("1Gi", "3Gi"))
            created.append(capacity)
    return created


def _attachments(dice: Dice, volumes: list[Object], nodes: list[str]) -> list[Object]:
    created = []
    for volume in volumes:
        if nodes and "csi" in volume["spec"] and dice.chance(0.15):
            source = {"persistentVolumeName": volume["metadata"]["name"]}
            spec = {"attacher": volume["spec"]["csi"]["driver"], "nodeName": dice.pick(nodes), "source": source}
            created.append(words.thing("VolumeAttachment", f"at-{volume['metadata']['name']}", api=API, spec=spec))
    return created


def _mount(dice: Dice, pod: Object, claims: list[Object]) -> list[Object]:
    """Add volumes to a pod; return the claims of its ephemeral volumes."""
    volumes: list[Object] = []
    created: list[Object] = []
    if claims and dice.wants("claims", 0.8):
        for number, claim in enumerate(dice.some(claims, 1, 2)):
            volumes.append({"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}})
    if dice.chance(0.02):
        volumes.append({"name": "gone", "persistentVolumeClaim": {"claimName": "gone"}})
    if dice.wants("disks", 0.5):
        volumes.append({"name": "disk", **_inline_disk(dice)})
    if dice.wants("ephemeral", 0.4):
        volumes.append({"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": _ephemeral_spec()}}})
        created += _ephemeral_claim(dice, pod)
    if volumes:
        pod["spec"]["volumes"] = volumes
    return created


def _inline_disk(dice: Dice) -> Object:
    read_only = dice.chance(0.5)
    return dice.pick(
        (
            {"gcePersistentDisk": {"pdName": dice.pick(("d1", "d2")), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": dice.pick(("vol-1", "vol-2")), "readOnly": read_only}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.1",
                    "iqn": dice.pick(("iqn-1", "iqn-2")),
                    "lun": 0,
                    "readOnly": read_only,
                }
            },
            {"rbd": {"monitors": dice.some(("m1", "m2", "m3"), 1, 2), "image": "i1", "readOnly": read_only}},
        )
    )


def _ephemeral_spec() -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}


def _ephemeral_claim(dice: Dice, pod: Object) -> list[Object]:
    if dice.chance(0.1):
        return []
    metadata, name = pod["metadata"], pod["metadata"]["name"]
    metadata.setdefault("uid", f"pod-{name}-uid")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"], "controller": True}
    owners = [owner] if dice.chance(0.9) else []
    namespace = metadata.get("namespace", "default")
    claim_metadata: Object = {"ownerReferences": owners, "uid": f"{name}-e-uid"}
    return [
        words.thing(
            "PersistentVolumeClaim", f"{name}-e", namespace=namespace, metadata=claim_metadata, spec=_ephemeral_spec()
        )
    ]
