"""Containers: requests and limits in every spelling, ports, images, init containers and sidecars."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object


def make_containers(dice: Dice) -> Object:
    """Make the part of a pod's spec about containers and their requests."""
    spec: Object = {"containers": [_container(dice, f"c{number}") for number in range(dice.pick((1, 1, 1, 2, 3)))]}
    if dice.wants("initContainers", 0.6):
        spec["initContainers"] = [_init_container(dice, f"i{number}") for number in range(dice.number(1, 3))]
    if dice.wants("overhead", 0.5):
        spec["overhead"] = {name: amount for name, amount in (("cpu", "50m"), ("memory", "32Mi")) if dice.chance(0.7)}
    if dice.wants("podLevel", 0.6):
        spec["resources"] = _pod_level(dice)
    if dice.wants("ports", 0.1):
        spec["hostNetwork"] = True
        if dice.chance(0.3):
            spec["hostUsers"] = False
    return spec


def _container(dice: Dice, name: str) -> Object:
    container: Object = {"name": name, "image": dice.pick(words.IMAGES)}
    if dice.chance(0.85):
        container["resources"] = _resources(dice)
    if dice.wants("ports", 0.6):
        container["ports"] = _ports(dice)
    if dice.wants("features", 0.4):
        container |= _feature(dice)
    return container


def _init_container(dice: Dice, name: str) -> Object:
    container = _container(dice, name)
    if dice.chance(0.4):
        container["restartPolicy"] = "Always"
    return container


def _feature(dice: Dice) -> Object:
    """Use a feature that a node must declare."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    mount = {"name": "scratch", "mountPath": "/scratch", "bindMountOptions": ["noexec"]}
    return dice.pick(({"restartPolicy": "Never", "restartPolicyRules": [rule]}, {"volumeMounts": [mount]}))


def _resources(dice: Dice) -> Object:
    requests: Object = {}
    limits: Object = {}
    if dice.chance(0.8):
        requests["cpu"] = dice.pick(words.CPU)
    if dice.chance(0.7):
        requests["memory"] = dice.pick(words.MEMORY)
    if dice.chance(0.06):
        requests[dice.pick(("cpu", "memory"))] = 0
    if dice.chance(0.15):
        limits["memory"] = "2Gi"
    if dice.chance(0.1):
        limits["cpu"] = dice.pick(("1", "2500m", "9"))
    if dice.wants("disk", 0.6):
        requests["ephemeral-storage"] = dice.pick(("100Mi", "1G", "6Gi"))
    if dice.wants("extended", 0.6):
        limits |= {resource: str(dice.pick((0, 1, 1, 2))) for resource in dice.some(words.EXTENDED, 1, 2)}
    if dice.wants("hugepages", 0.6):
        limits["hugepages-2Mi"] = dice.pick(("2Mi", "4Mi", "4Mi", "20Mi"))
    return {key: amounts for key, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _ports(dice: Dice) -> list[Object]:
    return [_port(dice) for _ in range(dice.number(1, 2))]


def _port(dice: Dice) -> Object:
    port: Object = {"containerPort": dice.pick((80, 8080))}
    if dice.chance(0.8):
        port["hostPort"] = port["containerPort"]
    if dice.chance(0.5):
        port["protocol"] = dice.pick(("TCP", "UDP", "SCTP"))
    if dice.chance(0.5):
        port["hostIP"] = dice.pick(("0.0.0.0", "127.0.0.1", "10.0.0.1", ""))
    return port


def _pod_level(dice: Dice) -> Object:
    resources: Object = {}
    if dice.chance(0.6):
        resources["requests"] = {"cpu": dice.pick(("2", "3", "1500m"))} if dice.chance(0.5) else {"memory": "1800Mi"}
    if not resources or dice.chance(0.5):
        limits = {"cpu": "6", "memory": "3Gi", "hugepages-2Mi": "40Mi"}
        resources["limits"] = {name: limits[name] for name in dice.some(tuple(limits), 1)}
    return resources
