"""Measure the time to draw a large cluster, and the resources of the browser.

`python -m tests.browser.measure --nodes 5000 --pods 20000` prints the numbers in docs/how-to/look-at-a-cluster.md.
No result depends on the clock.
"""

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.sync_api import Page

from tests.browser.browsing import WIDE, Looker, ServedPage, browsing
from tests.browser.clusters import fleet
from tests.unit.insight.page.clusters import still

FRAMES = 60
FLUENCY = """async () => {
  const canvas = document.querySelector('canvas.map'), box = canvas.getBoundingClientRect(), took = [];
  for (let at = 0; at < %d; at += 1) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    const [clientX, clientY] = [box.left + (at * 37) %% box.width, box.top + 40 + (at * 11) %% 300];
    canvas.dispatchEvent(new MouseEvent('mousemove', {clientX, clientY}));
    took.push(performance.now() - began);
  }
  return took.sort((a, b) => a - b)[Math.floor(took.length / 2)];
}"""


def main() -> None:
    """Measure once, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--waiting", type=int, default=1000)
    arguments = parser.parse_args()
    contents = fleet(arguments.nodes, arguments.pods, arguments.waiting)
    began = perf_counter()
    with ServedPage(lambda: still(contents)) as served, browsing() as browser:
        result: dict[str, Any] = {"served_after_seconds": round(perf_counter() - began, 1)}
        empty = browser.new_page(viewport=WIDE)
        empty.goto("about:blank")
        before = memory(empty)
        window = Looker(browser.new_page(viewport=WIDE))
        window.page.set_default_timeout(300_000)
        began = perf_counter()
        window.page.goto(served.url)
        window.page.wait_for_function("() => document.querySelector('canvas.map')?.dataset.took")
        result["first_drawing_seconds"] = round(perf_counter() - began, 2)
        window.page.wait_for_function("() => !document.querySelector('main').innerText.includes('not been tried yet')")
        result["all_tried_after_seconds"] = round(perf_counter() - began, 1)
        window.page.reload()
        began = perf_counter()
        window.page.wait_for_function("() => document.querySelector('canvas.map')?.dataset.took")
        result["drawing_again_seconds"] = round(perf_counter() - began, 2)
        result["map_ms"] = float(window.page.evaluate("document.querySelector('canvas.map').dataset.took"))
        result["pointing_ms"] = round(float(window.page.evaluate(FLUENCY % FRAMES)), 1)
        result["script_heap_mb"] = round(window.page.evaluate("performance.memory.usedJSHeapSize") / 2**20, 1)
        result["page_mb"] = memory(window.page) - before
        result["empty_browser_mb"] = before
        sys.stdout.write(f"{json.dumps(result, indent=2)}\n")


def memory(page: Page) -> int:
    """Return the memory of all browser processes in megabytes; shared memory counts once."""
    session = page.context.browser.new_browser_cdp_session()  # type: ignore[union-attr]
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return round(sum(_proportional(process["id"]) for process in processes) / 1024)


def _proportional(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
