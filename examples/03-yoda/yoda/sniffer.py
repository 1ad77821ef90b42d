"""A replacement of the sniffer: publishes an Scv for every node of a cluster that has no real cards.

Cards come from a short list of models, and their number differs between nodes. Memory that running pods hold
(``scv/cards`` and ``scv/memory``) is in use. Other fields stay, so a card can be marked as unhealthy with kubectl.
"""

import argparse
import asyncio
import sys
import time
from typing import Any, Final
from zlib import crc32

from moorage import ApiClient, MoorageError, Node, ObjectMeta, Pod, format_time, load_connection
from yoda.demand import MEMORY, cards_given, number
from yoda.scv import Scv

MODELS: Final = (
    {"model": "TITAN Xp", "totalMemory": 12194, "clock": 5705, "core": 1911, "power": 250, "bandwidth": 15760},
    {"model": "Tesla T4", "totalMemory": 15109, "clock": 5001, "core": 1590, "power": 70, "bandwidth": 15760},
    {"model": "Tesla V100", "totalMemory": 32510, "clock": 877, "core": 1530, "power": 300, "bandwidth": 15760},
)


def new_cards(node_name: str) -> list[dict[str, Any]]:
    """Make up the cards of a node: always the same for the same name."""
    dice = crc32(node_name.encode())
    model = MODELS[dice % len(MODELS)]
    return [{"id": card, "health": "Healthy", **model} for card in range((1, 2, 4, 8)[dice // 7 % 4])]


def status_of(cards: list[dict[str, Any]], pods: list[Pod], now: float) -> dict[str, Any]:
    """Report cards of which pods that run use some memory."""
    running = [pod for pod in pods if pod.status.phase == "Running"]
    for card in cards:
        used_memory = sum(number(pod.labels.get(MEMORY, "")) for pod in running if card["id"] in cards_given(pod))
        card["freeMemory"] = max(card["totalMemory"] - used_memory, 0)
    sums = {f"{which}MemorySum": sum(card[f"{which}Memory"] for card in cards) for which in ("total", "free")}
    return {"cardList": cards, "cardNumber": len(cards), **sums, "updateTime": format_time(now)}


async def publish(client: ApiClient, now: float) -> int:
    """Create or bring up to date the Scv of every node; return how many were written."""
    nodes, pods = await client.list(Node), await client.list(Pod)
    scvs = {scv.name: scv for scv in await client.list(Scv)}
    count = 0
    for node in nodes:
        here = [pod for pod in pods if pod.node_name == node.name]
        current = scvs.get(node.name)
        if current is None:
            first = status_of(new_cards(node.name), here, now)
            await client.create(Scv(metadata=ObjectMeta(name=node.name), status=first))
            count += 1
        elif (status := _again(current, here, now)) is not None:
            await client.patch(current, {"status": status})
            count += 1
    return count


def _again(scv: Scv, pods: list[Pod], now: float) -> dict[str, Any] | None:
    """Return the status to publish; ``None`` if no card changed or the present status is invalid."""
    if isinstance(scv.report, str):
        return None
    before = [dict(card) for card in (scv.status or {}).get("cardList", [])]
    status = status_of([dict(card) for card in before], pods, now)
    return status if status["cardList"] != before else None


async def run(kubeconfig: str, every: float) -> None:
    """Publish until interrupted."""
    async with ApiClient(load_connection(kubeconfig)) as client:
        while True:
            if count := await publish(client, time.time()):
                sys.stdout.write(f"wrote {count} Scvs\n")
                sys.stdout.flush()
            await asyncio.sleep(every)


def main() -> None:
    """Read the command line and publish."""
    parser = argparse.ArgumentParser(prog="python -m yoda.sniffer", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", default="", help="how to reach the cluster (default: as kubectl)")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look (default: 1)")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.kubeconfig, options.every))
    except KeyboardInterrupt:
        sys.exit(130)
    except MoorageError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
