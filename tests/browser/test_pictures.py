"""The screenshots of the documentation, in light and dark, wide and narrow."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.browsing import PHONE, WIDE, Looker, ServedPage
from tests.browser.clusters import MOST_ALLOCATED, fleet, machine
from tests.browser.conftest import Look
from tests.unit.insight.page.clusters import Content, job, played, pod, still

TALL = {"width": 1360, "height": 1150}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the screenshots: the documentation only on request."""
    return Path(os.environ.get("MOORAGE_PICTURES") or tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def full() -> Iterator[ServedPage]:
    """Return a cluster with a thousand pending pods and five reasons."""
    with ServedPage(lambda: still(fleet(240, 4000, 1000), "production.json.gz")) as served:
        yield served


def busy() -> list[Content]:
    """Describe a cluster with a history: jobs that finish, and pods that remain."""
    jobs = [job(f"report-{number}", 60, 3 + 3 * number, "4") for number in range(7)]
    return [*(machine(number) for number in range(45)), *jobs, *(pod(f"web-{n:02d}", "2") for n in range(60))]


def take(window: Looker, path: Path) -> None:
    """Take a screenshot, and check that it is not empty."""
    assert window.problems == []
    window.page.mouse.move(0, 0)
    window.page.screenshot(path=path)
    assert path.stat().st_size > 20_000


def test_overview(look: Look, full: ServedPage, place: Path) -> None:
    for name, dark in (("overview", False), ("overview-dark", True)):
        window = look(WIDE, dark=dark)
        window.open(full.url)
        window.wait_for("Remove the volume data")
        take(window, place / f"ui-{name}.png")


def test_map(look: Look, full: ServedPage, place: Path) -> None:
    window = look(WIDE)
    window.open(full.url, "nodes")
    window.page.select_option("label:has-text('Color') select", "memory")
    window.page.select_option("label:has-text('Group') select", "example.com/rack")
    window.page.select_option("label:has-text('Size') select", "cpu")
    take(window, place / "ui-nodes.png")


def test_pod(look: Look, full: ServedPage, place: Path) -> None:
    window = look(TALL)
    window.open(full.url, "pod/batch%2Fjob-00004")
    window.wait_for("All nodes")
    take(window, place / "ui-pod.png")


def test_phone(look: Look, full: ServedPage, place: Path) -> None:
    window = look(PHONE, dark=True)
    window.open(full.url)
    window.wait_for("Remove the volume data")
    take(window, place / "ui-phone.png")


def test_what_if(look: Look, full: ServedPage, place: Path) -> None:
    window = look(TALL)
    window.open(full.url, "node/node-003")
    window.page.click("text=Simulate a drain")
    window.wait_for("Moved pods:")
    take(window, place / "ui-try.png")


def test_time_and_comparison(look: Look, place: Path) -> None:
    with ServedPage(lambda: played(busy(), {"scheduler.yaml": "", "most-allocated.yaml": MOST_ALLOCATED})) as served:
        window = look(WIDE)
        window.open(served.url, "compare")
        window.page.locator("input[type=range]").fill("200")
        window.wait_for("differ")
        take(window, place / "ui-compare.png")
        window.open(served.url)
        window.wait_for("Over time")
        take(window, place / "ui-time.png")
