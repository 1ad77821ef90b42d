"""Pods with devices: claims are allocated on feasible nodes, each device once, and released."""

from typing import Any, Final

from tests.live.scenarios.scene import PODS, Data, Scene

CLAIMS: Final = "resource.k8s.io/v1/resourceclaims"
TEMPLATES: Final = "resource.k8s.io/v1/resourceclaimtemplates"
CLASSES: Final = "resource.k8s.io/v1/deviceclasses"
SLICES: Final = "resource.k8s.io/v1/resourceslices"
DRIVER: Final = "card.example.com"


async def claim_is_allocated_on_the_node_of_the_device(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene)
    await _cards(scene, "b", _card("card-0"))
    await scene.create(CLAIMS, "mine", spec=_requests(scene))
    await scene.pod("job", resourceClaims=[_use("mine")])
    assert await scene.node_of("job") == "b"
    claim = await scene.get(CLAIMS, "mine")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"], result["device"]) == (DRIVER, "b", "card-0")
    (consumer,) = claim["status"]["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("pods", "job")


async def claim_of_a_template_is_deleted_with_its_pod(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene)
    await _cards(scene, "a", _card("card-0"))
    await _cards(scene, "b", _card("card-0"))
    await scene.create(TEMPLATES, "one-card", spec={"spec": _requests(scene)})
    for name in ("first", "second"):
        await scene.pod(name, resourceClaims=[{"name": "card", "resourceClaimTemplateName": "one-card"}])
    assert set(await scene.nodes_of("first", "second")) == {"a", "b"}
    first = (await scene.pods())["first"]
    (status,) = first.status.resource_claim_statuses
    await scene.delete(PODS, "first")
    await scene.gone(status.resource_claim_name or "", CLAIMS)
    await scene.pod("third", resourceClaims=[{"name": "card", "resourceClaimTemplateName": "one-card"}])
    assert await scene.node_of("third") == first.node_name


async def classes_and_claims_select_by_expressions(scene: Scene) -> None:
    """The class requires a model, the claim requires memory: only one card has both."""
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, f"device.attributes['{DRIVER}'].model == 'big'")
    await _cards(scene, "a", _card("card-0", model="small", memory="40Gi"), _card("card-1", model="big", memory="8Gi"))
    await _cards(scene, "b", _card("card-0", model="big", memory="40Gi"))
    enough = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('20Gi')) >= 0"
    await scene.create(CLAIMS, "mine", spec=_requests(scene, selectors=[{"cel": {"expression": enough}}]))
    await scene.pod("job", resourceClaims=[_use("mine")])
    assert await scene.node_of("job") == "b"


async def pods_share_a_claim(scene: Scene) -> None:
    """The first scheduled pod determines the node of the others."""
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene)
    await _cards(scene, "a", _card("card-0"))
    await _cards(scene, "b", _card("card-0"))
    await scene.create(CLAIMS, "shared", spec=_requests(scene))
    names = ("first", "second", "third")
    for name in names:
        await scene.pod(name, resourceClaims=[_use("shared")])
    (node,) = set(await scene.nodes_of(*names))
    claim = await scene.get(CLAIMS, "shared")
    assert claim["status"]["allocation"]["devices"]["results"][0]["pool"] == node
    assert {consumer["name"] for consumer in claim["status"]["reservedFor"]} == set(names)


async def released_device_goes_to_a_pending_pod(scene: Scene) -> None:
    await scene.node("a")
    await _class(scene)
    await _cards(scene, "a", _card("card-0"))
    for name in ("first", "second"):
        await scene.create(CLAIMS, name, spec=_requests(scene))
    await scene.pod("first", resourceClaims=[_use("first")])
    await scene.node_of("first")
    await scene.pod("second", resourceClaims=[_use("second")])
    await scene.rejection("second", "0/1 nodes are available: 1 cannot allocate all claims.")
    await scene.delete(PODS, "first")
    await scene.gone("first")
    await scene.delete(CLAIMS, "first")
    assert await scene.node_of("second") == "a"


async def pod_waits_for_its_missing_claim(scene: Scene) -> None:
    await scene.node("a")
    await _class(scene)
    await _cards(scene, "a", _card("card-0"))
    await scene.pod("job", resourceClaims=[_use("mine")])
    await scene.pod("other")
    await scene.node_of("other")
    await scene.create(CLAIMS, "mine", spec=_requests(scene))
    assert await scene.node_of("job") == "a"


async def first_available_alternative_is_allocated(scene: Scene) -> None:
    await scene.node("a")
    await _class(scene)
    await _cards(scene, "a", _card("card-0", model="small"))
    alternatives = [
        {
            "name": model,
            "deviceClassName": scene.namespace,
            "selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].model == '{model}'"}}],
        }
        for model in ("big", "small")
    ]
    await scene.create(
        CLAIMS, "mine", spec={"devices": {"requests": [{"name": "card", "firstAvailable": alternatives}]}}
    )
    await scene.pod("job", resourceClaims=[_use("mine")])
    assert await scene.node_of("job") == "a"
    claim = await scene.get(CLAIMS, "mine")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["request"] == "card/small"


async def devices_of_one_claim_match_each_other(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene)
    await _cards(scene, "a", _card("card-0", model="x"), _card("card-1", model="y"))
    await _cards(scene, "b", _card("card-0", model="x"), _card("card-1", model="x"))
    alike = {"requests": ["card"], "matchAttribute": f"{DRIVER}/model"}
    spec = _requests(scene, count=2)
    spec["devices"]["constraints"] = [alike]
    await scene.create(CLAIMS, "pair", spec=spec)
    await scene.pod("job", resourceClaims=[_use("pair")])
    assert await scene.node_of("job") == "b"


async def tainted_device_needs_a_toleration(scene: Scene) -> None:
    await scene.node("a")
    await _class(scene)
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    await _cards(scene, "a", _card("card-0") | {"taints": [taint]})
    await scene.create(CLAIMS, "strict", spec=_requests(scene))
    await scene.pod("strict", resourceClaims=[_use("strict")])
    await scene.rejection("strict")
    tolerant = _requests(scene, tolerations=[{"key": "example.com/broken", "operator": "Exists"}])
    await scene.create(CLAIMS, "tolerant", spec=tolerant)
    await scene.pod("tolerant", resourceClaims=[_use("tolerant")])
    assert await scene.node_of("tolerant") == "a"


async def device_provides_an_extended_resource(scene: Scene) -> None:
    """The pod requests a resource as usual; the scheduler creates the claim."""
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, extendedResourceName="example.com/card")
    await _cards(scene, "b", _card("card-0"))
    await scene.pod("job", container={"resources": {"limits": {"example.com/card": "1"}}})
    assert await scene.node_of("job") == "b"
    (claim,) = await scene.all(CLAIMS)
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"


async def _class(scene: Scene, expression: str = "", **spec: Any) -> None:
    """Create the device class of the scene."""
    expressions = [f"device.driver == '{DRIVER}'", *filter(None, (expression,))]
    selectors = [{"cel": {"expression": text}} for text in expressions]
    await scene.create(CLASSES, scene.namespace, spec={"selectors": selectors, **spec})


def _card(name: str, model: str = "big", memory: str = "40Gi") -> Data:
    return {"name": name, "attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}}}


async def _cards(scene: Scene, node: str, *cards: Data) -> None:
    """Publish the cards of a node, as its driver does."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(cards)}
    await scene.create(SLICES, f"{scene.namespace}-{node}", spec=spec)


def _requests(scene: Scene, **exactly: Any) -> Data:
    return {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": scene.namespace, **exactly}}]}}


def _use(claim: str) -> Data:
    return {"name": "card", "resourceClaimName": claim}
