"""`python -m tests.conformance.plans --seed 1 --n 100`: check plans on random clusters with kube-scheduler's code.

A separate, simple implementation applies each step to the manifests. The oracle schedules each recreated
pod, one after another. It must name the node of the plan, or one with the same score. No budget may be exceeded, and
each pod that ran must have a node at the end unless the plan reports otherwise.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from msgspec.structs import replace as replace_limits
from rich.console import Console

from moorage.common.errors import InputError
from moorage.insight.plan.consolidation import plan_consolidate
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.rebalancing import plan_rebalance
from moorage.insight.whatif.session import Session
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import Policy
from tests.conformance.fuzz import find_features, silence_logs
from tests.conformance.generator import Case, generate
from tests.conformance.generator.words import Object
from tests.conformance.oracle import Oracle, OracleError
from tests.conformance.ours import BASE_GATES, REGISTRY, make_configuration_for

PlanData = dict[str, Any]
MakePlan = Callable[[Session], PlanData]


@dataclass
class PlanTally:
    """Counts of a run."""

    plans: int = 0
    feasible: int = 0
    steps: int = 0
    moves: int = 0
    budgets: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.plans} plans ({self.feasible} feasible), {self.steps} steps, {self.moves} evictions"
        return f"{counts}, {self.budgets} uses of budgets, {self.refused} clusters refused, {len(self.wrong)} wrong"


class PlanProver:
    """Makes plans, and checks each prediction with the oracle."""

    def __init__(self, oracle: Oracle, console: Console) -> None:
        self._oracle = oracle
        self._console = console
        self.tally = PlanTally()

    def prove(self, case: Case) -> None:
        """Plan and check one cluster."""
        chance = random.Random(case.seed)
        objects = with_budget(with_owners(case.objects, chance), chance)
        release_shared_ports(objects)
        case = replace(case, objects=objects)
        gates = FeatureGates({**BASE_GATES, **case.feature_gates})
        try:
            policy = Policy(make_configuration_for(case, gates), REGISTRY, gates)
            plans = [make_plan(case, policy, make) for make in goals(case, chance)]
        except InputError:
            return  # a cluster that both sides reject
        for plan in plans:
            try:
                problems = list(self.problems(case, plan))
            except OracleError:
                self.tally.refused += 1
                continue
            self.tally.plans += 1
            self.tally.feasible += plan["feasible"]
            for problem in problems:
                text = f"{case.seed} {plan['goal']} {json.dumps(plan['arguments'])}: {problem}"
                self.tally.wrong.append(text)
                self._console.print(text, markup=False, highlight=False)

    def problems(self, case: Case, plan: PlanData) -> Iterator[str]:
        """Apply a plan to the manifests; yield each difference."""
        objects = {key_of(item): deepcopy(item) for item in case.objects if not is_pending(item)}
        running = {key for key, item in objects.items() if key[0] == "Pod" and is_active(item)}
        allowed = {
            name_of(item): get_allowed_disruptions(item)
            for item in objects.values()
            if item["kind"] == "PodDisruptionBudget"
        }
        lost = set[tuple[str, str]]()
        for number, step in enumerate(plan["steps"], start=1):
            self.tally.steps += 1
            for name in step["cordon"]:
                objects["Node", name].setdefault("spec", {})["unschedulable"] = True
            yield from self._check_budgets(number, step, objects, allowed)
            pods = {item["pod"]: objects.pop(("Pod", item["pod"])) for item in step["evict"]}
            for item in step["evict"]:
                if pods[item["pod"]]["spec"]["nodeName"] != item["from"]:
                    yield f"step {number}: {item['pod']} is not on {item['from']}"
            for _, entries in groupby(step["evict"], key=lambda item: get_group(pods[item["pod"]]) or item["pod"]):
                together = [item for item in entries if item.get("recreated", True)]
                self.tally.moves += len(together)
                yield from self._recreate(case, number, together, pods, objects)
            lost |= {("Pod", item["pod"]) for item in step["evict"] if not item.get("to")}
            for name in step["uncordon"]:
                objects["Node", name]["spec"]["unschedulable"] = False
        announced = {("Pod", item["pod"]) for item in plan["pending"]}
        gone = {key for key in running if key not in objects or not objects[key]["spec"].get("nodeName")}
        deleted = {
            ("Pod", item["pod"]) for step in plan["steps"] for item in step["evict"] if not item.get("recreated", True)
        }
        if gone - deleted != announced:
            yield f"without a node at the end: {sorted(gone - deleted)}, announced: {sorted(announced)}"
        if plan["feasible"] and plan["goal"] == "drain":
            drained = set(plan["arguments"]["nodes"])
            yield from (
                f"{key[1]} is still on {item['spec']['nodeName']}"
                for key, item in objects.items()
                if key[0] == "Pod" and is_active(item) and "deletionTimestamp" not in item["metadata"]
                if item["spec"].get("nodeName") in drained and not belongs_to_node(item)
                if "rolling" not in plan["arguments"]
            )
        if "placed" in plan:
            yield from self._check_request(case, plan, objects)

    def _check_budgets(
        self,
        number: int,
        step: PlanData,
        objects: dict[tuple[str, str], Object],
        allowed: dict[str, Callable[..., int]],
    ) -> Iterator[str]:
        pods = [objects["Pod", item["pod"]] for item in step["evict"]]
        for name, limit in allowed.items():
            used = sum(is_covered(objects["PodDisruptionBudget", name], pod) for pod in pods)
            listed = next((use for use in step["budgets"] if use["name"] == name), {"used": 0})
            self.tally.budgets += bool(used)
            if used != listed["used"] or used > limit():
                yield f"step {number}: the budget {name} allows {limit()}, used {used}, the plan says {listed}"

    def _recreate(
        self,
        case: Case,
        number: int,
        entries: list[PlanData],
        pods: dict[str, Object],
        objects: dict[tuple[str, str], Object],
    ) -> Iterator[str]:
        fresh = {item["pod"]: recreated(pods[item["pod"]]) for item in entries}
        if not fresh:
            return
        decisions = self._oracle.decide(replace(case, objects=[*objects.values(), *fresh.values()]))
        by_pod = {item["pod"]: item for item in decisions if "pod" in item}
        for item in entries:
            decision = by_pod.get(item["pod"], {})
            node = decision.get("node") or None
            if item["to"] not in (node, *find_tied(decision, node)):
                yield f"step {number}: {item['pod']} goes to {item['to']}, the oracle says {node}"
            fresh[item["pod"]]["spec"] |= {"nodeName": item["to"]} if item["to"] else {}
            if item["to"]:
                objects["Pod", item["pod"]] = fresh[item["pod"]]

    def _check_request(self, case: Case, plan: PlanData, objects: dict[tuple[str, str], Object]) -> Iterator[str]:
        """Check the nodes of the requested pods: they are scheduled at the end, one after another."""
        originals = {name_of(item): item for item in case.objects if item["kind"] == "Pod"}
        for item in plan["placed"]:
            pod = deepcopy(originals[item["pod"]])
            decisions = self._oracle.decide(replace(case, objects=[*objects.values(), pod]))
            decision = next((found for found in decisions if found.get("pod") == item["pod"]), {})
            node = decision.get("node") or None
            if item["node"] not in (node, *find_tied(decision, node)):
                yield f"the request {item['pod']} goes to {item['node']}, the oracle says {node}"
            if item["node"] and (pod["spec"].get("resourceClaims") or pod["spec"].get("volumes")):
                return  # the manifests do not contain the devices and volumes that it allocates
            if item["node"]:
                pod["spec"]["nodeName"] = item["node"]
                objects["Pod", item["pod"]] = pod


def make_plan(case: Case, policy: Policy, make: MakePlan) -> PlanData:
    """Make a plan in a separate session."""
    with Session(to_documents(case.objects, source="the case"), policy, honors_nominations=False) as session:
        return make(session)


def goals(case: Case, chance: random.Random) -> Iterator[MakePlan]:
    """Yield the plans to make for a cluster."""
    nodes = [item["metadata"]["name"] for item in case.objects if item["kind"] == "Node"]
    chosen = chance.sample(nodes, min(len(nodes), chance.randint(1, 3)))
    limits = Constraints(
        force=chance.random() < 0.5,
        allow_pending=chance.random() < 0.3,
        max_moves=chance.randint(0, 6) if chance.random() < 0.2 else None,
    )
    rolling = chance.randint(1, 2) if chance.random() < 0.3 else None
    yield lambda session: plan_drain(session, chosen, rolling=rolling, constraints=limits).as_data()
    calm = replace_limits(limits, allow_pending=False)
    yield lambda session: plan_consolidate(session, constraints=calm).as_data()
    hot = chance.choice((0.3, 0.5, 0.8))
    yield lambda session: plan_rebalance(session, hot=hot, constraints=calm).as_data()
    waiting = [name_of(item) for item in case.objects if is_pending(item) and not get_group(item)]
    if waiting:
        request = chance.sample(waiting, min(len(waiting), chance.randint(1, 2)))
        goal = chance.choice(("defragment", "fit"))
        yield lambda session: plan_room(session, request, goal=goal, constraints=calm).as_data()


def with_owners(objects: list[Object], chance: random.Random) -> list[Object]:
    """Give most running pods without an owner a controller that recreates them; a few belong to DaemonSets."""
    result = deepcopy(objects)
    for item in result:
        if item["kind"] == "Pod" and item["spec"].get("nodeName") and chance.random() < 0.85:
            kind = "DaemonSet" if chance.random() < 0.1 else "ReplicaSet"
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": "planned", "uid": "planned", "controller": True}
            item["metadata"].setdefault("ownerReferences", [owner])
    return result


def with_budget(objects: list[Object], chance: random.Random) -> list[Object]:
    """Add copies of some running pods, and often a budget for pods with the same label."""
    running = [item for item in objects if item["kind"] == "Pod" and item["spec"].get("nodeName")]
    for item in [item for item in running if not get_group(item) and chance.random() < 0.4]:
        copy = deepcopy(item)
        copy["metadata"] |= {"name": f"copy-of-{item['metadata']['name']}"}
        copy["metadata"].pop("uid", None)
        if not copy["spec"].get("volumes") and not copy["spec"].get("resourceClaims"):
            objects.append(copy)
    labeled = [item for item in running if item["metadata"].get("labels")]
    if labeled and chance.random() < 0.6:
        chosen = chance.choice(labeled)["metadata"]
        key = chance.choice(sorted(chosen["labels"]))
        objects.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "planned", "namespace": chosen.get("namespace") or "default"},
                "spec": {"selector": {"matchLabels": {key: chosen["labels"][key]}}},
                "status": {"disruptionsAllowed": chance.randint(1, 2)},
            }
        )
    return objects


def release_shared_ports(objects: list[Object]) -> None:
    """Remove host ports that two pods of a node use.

    A scheduler never creates this state, and kube-scheduler's cache releases such a port with the first pod.
    """
    used: dict[str, set[int]] = {}
    for item in (item for item in objects if item["kind"] == "Pod" and item["spec"].get("nodeName")):
        taken = used.setdefault(item["spec"]["nodeName"], set())
        ports = [port for container in containers_of(item) for port in container.get("ports") or ()]
        own = {port["hostPort"] for port in ports if port.get("hostPort")}
        for port in ports:
            if port.get("hostPort") in taken:
                del port["hostPort"]
        taken |= own


def containers_of(pod: Object) -> list[Object]:
    """Return the containers and init containers of a pod."""
    return [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]


def find_tied(decision: PlanData, node: str | None) -> list[str]:
    """Return the nodes with the same total score as the chosen one."""
    totals = {name: entry.get("total") for name, entry in (decision.get("nodes") or {}).items()}
    best = totals.get(node or "")
    return [*decision.get("tied", ()), *(name for name, total in totals.items() if best is not None and total == best)]


def key_of(item: Object) -> tuple[str, str]:
    """Return kind and name of an object."""
    return item["kind"], item["metadata"]["name"] if item["kind"] == "Node" else name_of(item)


def name_of(item: Object) -> str:
    """Return ``namespace/name``."""
    return f"{item['metadata'].get('namespace') or 'default'}/{item['metadata']['name']}"


def is_pending(item: Object) -> bool:
    """Return whether an object is a pod without a node: such pods are not part of a plan."""
    return item["kind"] == "Pod" and not item["spec"].get("nodeName")


def is_active(item: Object) -> bool:
    """Return whether a pod has a node and has not ended."""
    return bool(item["spec"].get("nodeName")) and (item.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def belongs_to_node(item: Object) -> bool:
    """Return whether a pod keeps its node."""
    owners = item["metadata"].get("ownerReferences", ())
    annotations = item["metadata"].get("annotations") or {}
    return "kubernetes.io/config.mirror" in annotations or any(owner["kind"] == "DaemonSet" for owner in owners)


def get_group(item: Object) -> str:
    """Return the pod group of a pod; empty without one."""
    name = (item["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    return f"{item['metadata'].get('namespace') or 'default'}/{name}" if name else ""


def recreated(item: Object) -> Object:
    """Return the pod without its node and status."""
    fresh = {key: deepcopy(part) for key, part in item.items() if key != "status"}
    del fresh["spec"]["nodeName"]
    return fresh


def get_allowed_disruptions(item: Object) -> Callable[..., int]:
    """Return a function for the allowed disruptions of a generated budget, which always has a status."""
    return lambda: int(item["status"]["disruptionsAllowed"])


def is_covered(budget: Object, pod: Object) -> bool:
    """Return whether a generated budget, which has only matchLabels, covers a pod."""
    if (budget["metadata"].get("namespace") or "default") != (pod["metadata"].get("namespace") or "default"):
        return False
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == text for key, text in budget["spec"]["selector"].get("matchLabels", {}).items())


def prove(seed: str, count: int, features: str, oracle: Oracle, console: Console, first: int = 0) -> PlanTally:
    """Check the plans of some clusters."""
    silence_logs()
    prover = PlanProver(oracle, console)
    for number in range(first, first + count):
        prover.prove(generate(f"{seed}/{number}", features=find_features(features)))
    return prover.tally


def main() -> int:
    """Run the command line; return 1 if a plan was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.plans", description=__doc__)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--n", type=int, default=100, help="how many clusters")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--features", default="")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True)
    with Oracle() as oracle:
        tally = prove(arguments.seed, arguments.n, arguments.features, oracle, console, arguments.first)
    console.print(str(tally), highlight=False)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
