"""Measure the pods per second that the engine places on 5,000 nodes with eight cards each, with and without Yoda.

From the root of the repository: PYTHONPATH=.:examples/03-yoda python examples/03-yoda/rate.py
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.drain import measure
from benchmarks.engine_workloads import SMALL, Workload, plain_nodes
from yoda.plugin import Yoda
from yoda.scv import Scv
from yoda.sniffer import MODELS, make_status

from moorage import KubeObject, ObjectMeta, Pod
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import make_pod

NODES = 5_000
CONFIG = Path(__file__).with_name("scheduler.yaml")


def nodes_with_cards(count: int) -> Iterator[KubeObject]:
    """Make nodes with eight cards each, of three models, as their sniffers report them."""
    for number, node in enumerate(plain_nodes(count)):
        yield node
        cards = [{"id": card, "health": "Healthy", **MODELS[number % len(MODELS)]} for card in range(8)]
        yield Scv(metadata=ObjectMeta(name=node.name, uid=f"scv/{node.name}"), status=make_status(cards, [], 0.0))


def with_cards(number: int) -> Pod:
    """Make a pod that shares a card."""
    return make_pod(f"pod-{number}", requests=SMALL, labels={"scv/memory": "1000"}, scheduler_name="yoda-scheduler")


def plain(number: int) -> Pod:
    """Make the same pod without cards, for the default profile."""
    return make_pod(f"pod-{number}", requests=SMALL)


def main() -> None:
    """Measure and print the rates."""
    policy = load_policy(collect_plugins([Yoda]), CONFIG)
    for name, pods in {"default profile": plain, "yoda": with_cards}.items():
        row = measure(Workload(name, nodes_with_cards, pods), NODES, seconds=3.0, policy=policy).row()
        sys.stdout.write(f"{name}: {row['pods_per_second']:,.0f} pods/s, {row['unplaced']} not placed\n")


if __name__ == "__main__":
    main()
