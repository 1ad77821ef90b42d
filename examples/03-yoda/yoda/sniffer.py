"""A replacement of the sniffer: publishes an Scv for every node of a cluster that has no real cards.

Each node has cards of one model from a short list, and their number varies. Memory that running pods hold
(``scv/cards`` and ``scv/memory``) is in use. Other fields are preserved: kubectl can mark a card as unhealthy.
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
    """Generate the cards of a node from its name."""
    dice = crc32(node_name.encode())
    model = MODELS[dice % len(MODELS)]
    return [{"id": card, "health": "Healthy", **model} for card in range((1, 2, 4, 8)[dice // 7 % 4])]


def make_status(cards: list[dict[str, Any]], pods: list[Pod], now: float) -> dict[str, Any]:
    """Return a report with the memory that running pods use."""
    running = [pod for pod in pods if pod.status.phase == "Running"]
    for card in cards:
        used_memory = sum(number(pod.labels.get(MEMORY, "")) for pod in running if card["id"] in cards_given(pod))
        card["freeMemory"] = max(card["totalMemory"] - used_memory, 0)
    sums = {f"{which}MemorySum": sum(card[f"{which}Memory"] for card in cards) for which in ("total", "free")}
    return {"cardList": cards, "cardNumber": len(cards), **sums, "updateTime": format_time(now)}


async def publish(client: ApiClient, now: float) -> int:
    """Create or update the Scv of every node; return the number of writes."""
    nodes, pods = await client.list(Node), await client.list(Pod)
    scvs = {scv.name: scv for scv in await client.list(Scv)}
    count = 0
    for node in nodes:
        here = [pod for pod in pods if pod.node_name == node.name]
        current = scvs.get(node.name)
        if current is None:
            first = make_status(new_cards(node.name), here, now)
            await client.create(Scv(metadata=ObjectMeta(name=node.name), status=first))
            count += 1
        elif (status := _updated_status(current, here, now)) is not None:
            await client.patch(current, {"status": status})
            count += 1
    return count


def _updated_status(scv: Scv, pods: list[Pod], now: float) -> dict[str, Any] | None:
    """Return the status to publish; ``None`` if no card changed or the present status is invalid."""
    if isinstance(scv.report, str):
        return None
    before = [dict(card) for card in (scv.status or {}).get("cardList", [])]
    status = make_status([dict(card) for card in before], pods, now)
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
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig of the cluster (default: the one that kubectl uses)"
    )
    parser.add_argument(
        "--every", type=float, default=1.0, metavar="SECONDS", help="interval between reports (default: 1)"
    )
    options = parser.parse_args()
    try:
        asyncio.run(run(options.kubeconfig, options.every))
    except KeyboardInterrupt:
        sys.exit(130)
    except MoorageError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
