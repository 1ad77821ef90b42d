"""`python -m tests.conformance.changes --seed 1 --n 100`: check the suggestions of explain with kube-scheduler's code.

Every pending pod of random clusters is explained. Each change is applied to the manifests, the other pending pods are
removed, and the oracle is called: the pod must get a node, or a nomination if it has to preempt. Every edit must be
necessary, and no amount may be reduced by one unit.

The search is bounded by its trials and not by time, so a seed has the same result on every machine.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from rich.console import Console

from moorage.common.errors import InputError, MoorageError
from moorage.insight.explain.group_search import search_group
from moorage.insight.explain.groups import is_scheduled_with_group, list_pending_members, view_group
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.subject import Limits
from moorage.insight.whatif.session import Session
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import to_documents
from moorage.scheduler.config import completed_view
from moorage.scheduler.wiring.policy import Policy
from tests.conformance.amounts import one_unit_nearer
from tests.conformance.fuzz import find_features, silence_logs
from tests.conformance.generator import Case, generate
from tests.conformance.oracle import KubeSchedulerCrash, Oracle, OracleError
from tests.conformance.ours import BASE_GATES, REGISTRY, make_configuration_for
from tests.conformance.planting import PLANTS, planted, with_room
from tests.integration import test_first_suggestions, test_pending_situations

Edit = dict[str, Any]
Object = dict[str, Any]


@dataclass
class Tally:
    """The checks and the failures."""

    pods: int = 0
    groups: int = 0
    without: int = 0
    planted: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    amounts: int = 0
    wrong: list[str] = field(default_factory=list)
    crashed: int = 0
    """Clusters on which kube-scheduler crashes: it is unknown whether the pod would fit."""

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.changes.most_common())
        summary = f"{self.pods} pending pods ({self.planted} by a planted obstacle), {self.without} without an offer"
        summary += f", {self.groups} groups" if self.groups else ""
        crashed = f", {self.crashed} where kube-scheduler crashes" if self.crashed else ""
        return f"{summary}, {self.amounts} amounts, {len(self.wrong)} wrong{crashed}; {kinds}"


class Prover:
    """Explains pods, and checks the suggestions with the oracle."""

    def __init__(self, oracle: Oracle, console: Console) -> None:
        self._oracle = oracle
        self._console = console
        self.tally = Tally()
        self.refusal = ""
        self._planted = 0

    def prove(self, case: Case) -> None:
        """Check all suggestions for the pending pods of a cluster."""
        gates = FeatureGates({**BASE_GATES, **case.feature_gates})
        try:
            policy = Policy(make_configuration_for(case, gates), REGISTRY, gates)
        except InputError:
            return  # a configuration that both sides reject
        profiles = {profile.scheduler_name for profile in policy.config.profiles}
        documents = to_documents(case.objects, source="the case")
        with Session(documents, policy, honors_nominations=False) as session:
            self._prove_groups(case, session, policy)
            for pod in session.objects.given.pending:
                if pod.scheduler_name in profiles and not is_scheduled_with_group(session, pod):
                    self._prove_pod(case, session, pod.key, policy)

    def _prove_groups(self, case: Case, session: Session, policy: Policy) -> None:
        """Check all suggestions for groups that cannot start: the oracle must then place the group."""
        groups = session.scheduler.cache.groups
        for key in sorted(groups) if groups is not None else ():
            waiting = list_pending_members(session, key) if is_whole(session, key) else []
            if not waiting or any(pod.scheduler_name not in session.scheduler.runners for pod in waiting):
                continue
            view = view_group(session, key)
            attempt = view.outcome.attempt
            if view.is_met or attempt is None or attempt.result == "error":
                continue
            self.tally.groups += 1
            names = {pod.key for pod in waiting}
            retained = [
                item
                for item in case.objects
                if item["kind"] != "Pod" or item["spec"].get("nodeName") or _key(item) in names
            ]
            alone = replace(case, objects=retained)
            for offer in search_group(session, view, Limits(inf)).offers:
                edits = [edit.as_data() for edit in offer.edits]
                self.tally.changes[f"{offer.kind} of a group"] += 1
                spec = {"pod": view.blocked} if view.needed is None and view.blocked else {"group": key}
                for problem in self._group_problems(alone, spec, edits, policy, offer.text):
                    self._tell(f"{case.seed} group {key}: {problem}\n    {offer.text} {json.dumps(edits)}")

    def _group_problems(
        self, case: Case, expected: dict[str, str], edits: list[Edit], policy: Policy, text: str
    ) -> Iterator[str]:
        if not self._is_group_placed(case, expected, edits, policy):
            yield "the oracle does not place the group"
        nearer = [dict(one_unit_nearer(edit, text=text)) for edit in edits]
        for amount in dict.fromkeys(amount for result in nearer for amount in result):
            self.tally.amounts += 1
            changed = [result.get(amount, edit) for edit, result in zip(edits, nearer, strict=True)]
            if self._is_group_placed(case, expected, changed, policy):
                yield f"{amount} could be one unit nearer to what it was"

    def _is_group_placed(self, case: Case, expected: dict[str, str], edits: list[Edit], policy: Policy) -> bool:
        """Return whether a gang can start, or, for a group without a minimum, whether the stuck pod can."""
        try:
            decisions = self._oracle.decide(applied(case, edits, policy))
        except OracleError as error:
            self._tell(f"{case.seed} {expected}: the oracle refuses the changed cluster: {error}")
            return False
        return any(expected.items() <= item.items() and item["result"] == "scheduled" for item in decisions)

    def _prove_pod(self, case: Case, session: Session, key: str, policy: Policy) -> None:
        explained = explain_pod(session, key, seconds=inf).as_data()
        if explained["result"] == "scheduled":
            self._plant(case, key, policy)
            return
        self.judge(case, key, explained, policy)

    def _plant(self, case: Case, key: str, policy: Policy) -> None:
        """Add an obstacle for a feasible pod; the suggestions must contain the change that removes it."""
        self._planted += 1
        names = _chosen(self._planted)
        plants = [PLANTS[name] for name in names]
        roomy = with_room(_alone(case, key), key, plants)
        obstructed = planted(roomy, key, plants)
        if not self._is_placed(roomy, key) or self._is_placed(obstructed, key):
            return  # something else blocks the pod as well, or the profile lacks the rejecting plugin
        documents = to_documents(obstructed.objects, source="the case")
        with Session(documents, policy, honors_nominations=False) as session:
            explained = explain_pod(session, key, seconds=inf).as_data()
        self.tally.planted += 1
        offered = {change["kind"] for change in explained["changes"]}
        if not offered or (len(plants) == 1 and plants[0].kind not in offered):
            expected = plants[0].kind if len(plants) == 1 else "change"
            description = f"{' and '.join(names)} planted, and no {expected} is offered"
            self._tell(f"{case.seed} {key}: {description}: {explained['changes']}")
        self.judge(obstructed, key, explained, policy)

    def _is_placed(self, case: Case, key: str) -> bool:
        try:
            return any(item["pod"] == key and item["result"] == "scheduled" for item in self._oracle.decide(case))
        except KubeSchedulerCrash:
            self.tally.crashed += 1
            return False
        except OracleError:
            return False  # not a valid cluster for an API server

    def _tell(self, text: str) -> None:
        self.tally.wrong.append(text)
        self._console.print(text, markup=False, highlight=False)

    def judge(self, case: Case, key: str, explained: dict[str, Any], policy: Policy) -> None:
        """Check all suggestions for a pod."""
        self.tally.pods += 1
        if not explained["changes"]:
            self.tally.without += 1
        for change in explained["changes"]:
            self.tally.changes[change["kind"]] += 1
            for problem in self._problems(_alone(case, key), key, change, policy):
                self._tell(f"{case.seed} {key}: {problem}\n    {json.dumps(change)}")

    def _problems(self, case: Case, key: str, change: dict[str, Any], policy: Policy) -> Iterator[str]:
        edits = change["edits"]
        try:
            outcome = self._outcome(case, key, edits, policy)
        except KubeSchedulerCrash:
            self.tally.crashed += 1
            return
        expected = (
            "nominated" if change.get("victims") or change["kind"] == "priority" else "scheduled",
            change["node"],
        )
        if outcome is None:
            yield f"the oracle refuses the changed cluster: {self.refusal}"
        elif outcome[0] != expected[0] or (outcome[1] != expected[1] and expected[1] not in outcome[2]):
            yield f"said {expected}, the oracle says {outcome}"
            return
        for at, edit in enumerate(edits):
            fewer = [other for n, other in enumerate(edits) if n != at]
            if not _is_unread_by_filters(edit) and self._helps(case, key, fewer, policy, expected[0]):
                yield f"edit {at} can be left out"
            for amount, nearer in one_unit_nearer(edit, _priority(case, key), change["text"]):
                self.tally.amounts += 1
                if self._helps(case, key, [*edits[:at], nearer, *edits[at + 1 :]], policy, expected[0]):
                    yield f"{amount} could be one unit nearer to what it was"

    def _helps(self, case: Case, key: str, edits: list[Edit], policy: Policy, expected: str) -> bool:
        try:
            outcome = self._outcome(case, key, edits, policy)
        except KubeSchedulerCrash:
            return False
        return outcome is not None and outcome[0] == expected

    def _outcome(self, case: Case, key: str, edits: list[Edit], policy: Policy) -> tuple[str, str, list[str]] | None:
        try:
            decisions = self._oracle.decide(applied(case, edits, policy))
        except KubeSchedulerCrash:
            raise
        except OracleError as error:
            self.refusal = str(error)
            return None
        decision = next((item for item in decisions if item["pod"] == key), {})
        nominated = (decision.get("postFilter") or {}).get("nominatedNode", "")
        result = "nominated" if nominated else decision.get("result", "gone")
        node = nominated or decision.get("node", "")
        return result, node, decision.get("tied", _equals(decision, node))


def prove_situations(oracle: Oracle, console: Console) -> Tally:
    """Check all suggestions for the usual reasons why a pod is pending."""
    prover = Prover(oracle, console)
    gates = FeatureGates(BASE_GATES)
    for name, (objects, _, _) in {**test_first_suggestions.SITUATIONS, **test_pending_situations.SITUATIONS}.items():
        case = Case(name, objects)
        policy = Policy(make_configuration_for(case, gates), REGISTRY, gates)
        with Session(to_documents(objects, source=name), policy, honors_nominations=False) as session:
            prover.judge(case, "default/p", explain_pod(session, "default/p", seconds=inf).as_data(), policy)
    return prover.tally


def is_whole(session: Session, key: str) -> bool:
    """Return whether a group has no parent."""
    groups = session.groups()
    group = groups.group(key)
    return group is not None and groups.find_group_root(group) is group


def _chosen(number: int) -> list[str]:
    """Choose one obstacle in turn; every fifth time, three obstacles."""
    names = [*PLANTS]
    first = number % len(names)
    return [names[first]] if number % 5 else [names[(first + step) % len(names)] for step in (0, 2, 5)]


def _equals(decision: dict[str, Any], node: str) -> list[str]:
    """Return the nodes that a random choice could have selected: all feasible nodes with the same score."""
    nodes = decision.get("nodes", {})
    total = nodes.get(node, {}).get("total")
    return [name for name, entry in nodes.items() if "code" not in entry and entry.get("total") == total]


def _is_unread_by_filters(edit: Edit) -> bool:
    """Return whether a pod fits without an edit that the change needs for another reason.

    The claim controller reads templates and their names: the change also contains the claim that it creates. The
    CSINode of a new node requeues pods that NodeVolumeLimits rejected, unlike the node.
    """
    target: Object = edit.get("object") or edit.get("create") or {}
    is_needed = target.get("kind") == "ResourceClaimTemplate" or edit.get("create", {}).get("kind") == "CSINode"
    paths = [operation["path"] for operation in edit.get("patch", ())]
    return is_needed or (bool(paths) and all(path.endswith("/resourceClaimTemplateName") for path in paths))


def _alone(case: Case, key: str) -> Case:
    """Remove the other pending pods."""
    retained = [
        item for item in case.objects if item["kind"] != "Pod" or item["spec"].get("nodeName") or _key(item) == key
    ]
    return replace(case, objects=retained)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _priority(case: Case, key: str) -> int:
    spec = next(item["spec"] for item in case.objects if item["kind"] == "Pod" and _key(item) == key)
    classes = {item["metadata"]["name"]: item for item in case.objects if item["kind"] == "PriorityClass"}
    usual = next((item["value"] for item in classes.values() if item.get("globalDefault")), 0)
    priority_class = classes.get(spec.get("priorityClassName", ""), {"value": usual})
    return int(spec.get("priority", priority_class["value"]))


def applied(case: Case, edits: list[Edit], policy: Policy) -> Case:
    """Apply edits to manifests with a separate, simple implementation."""
    objects, config = deepcopy(case.objects), case.config
    for edit in edits:
        if "create" in edit:
            objects.append(deepcopy(edit["create"]))
        elif "delete" in edit:
            objects = [item for item in objects if not _is(item, edit["delete"])]
        elif "config" in edit:
            config = completed_view(policy.config)
            for operation in edit["config"]:
                _operate(config, operation)
        else:
            selected = [item for item in objects if _is(item, edit["object"])]
            assert len(selected) == 1, f"{edit['object']} occurs {len(selected)} times"
            for operation in edit["patch"]:
                _operate(selected[0], operation)
    return replace(case, objects=objects, config=config)


def _is(item: Object, expected: Object) -> bool:
    metadata = item["metadata"]
    namespace = metadata.get("namespace") or "default" if "namespace" in expected else expected.get("namespace")
    return (item["apiVersion"], item["kind"], metadata["name"], namespace) == (
        expected["apiVersion"],
        expected["kind"],
        expected["name"],
        expected.get("namespace"),
    )


def _operate(target: Any, operation: dict[str, Any]) -> None:
    *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    for step in way:
        target = target[int(step)] if isinstance(target, list) else target[step]
    value = deepcopy(operation.get("value"))
    match operation["op"], target:
        case "add", list():
            target.insert(len(target) if last == "-" else int(last), value)
        case "add", dict():
            target[last] = value
        case "replace", list():
            target[int(last)] = value
        case "replace", dict():
            assert last in target, operation
            target[last] = value
        case "remove", list():
            del target[int(last)]
        case "remove", dict():
            del target[last]
        case _:
            raise AssertionError(f"{operation} on {type(target).__name__}")


def prove(seed: str, count: int, features: str, oracle: Oracle, console: Console, first: int = 0) -> Tally:
    """Run some clusters."""
    silence_logs()
    prover = Prover(oracle, console)
    for number in range(first, first + count):
        case = generate(f"{seed}/{number}", features=find_features(features))
        try:
            prover.prove(case)
        except MoorageError as error:
            prover.tally.wrong.append(f"{case.seed}: {error}")
            console.print(f"{case.seed}: {error}", markup=False, highlight=False)
    return prover.tally


def main() -> int:
    """Run the command line; return 1 if a suggestion was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.changes", description=__doc__)
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
