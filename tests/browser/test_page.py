"""The page in Chromium: it loads, shows the state, follows events, and survives unusual input."""

import io
from urllib.parse import quote

import pytest
from rich.console import Console

from moorage.insight.explain.explanation import PodExplanation
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.text import print_explanation
from tests.browser.browsing import PHONE, WIDE, Looker, ServedPage, elsewhere
from tests.browser.clusters import MOST_ALLOCATED, fleet, others
from tests.browser.conftest import Look
from tests.unit.insight.page.clusters import SMALL, job, loaded, node, played, pod, policy, still

VIEWS = (
    "",
    "nodes",
    "waiting",
    "pods",
    "pods/web",
    "queues",
    "try",
    f"pod/{quote('shop/big-1', safe='')}",
    "node/n1",
    "no-such-view",
    "pod/%",
)
TIMED = (node("n1"), node("n2"), pod("too-big", "9"), job("short", 6, 1), job("long", 6, 5))
UNNAMED = """() => [...document.querySelectorAll('main input, main select, main textarea, main button, #nav a')]
  .filter(item => !(item.getAttribute('aria-label') || item.labels?.length || item.innerText.trim()))
  .map(item => item.outerHTML)"""
FAINT = """() => {
  const parts = color => color.match(/[\\d.]+/g).map(Number)
  const light = color => parts(color).slice(0, 3).map(part => part / 255)
    .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0.05)
  const ground = item => !item ? 'rgb(255, 255, 255)'
    : (parts(getComputedStyle(item).backgroundColor)[3] ?? 1) > 0.99 ? getComputedStyle(item).backgroundColor
    : ground(item.parentElement)
  return [...document.querySelectorAll('body *')]
    .filter(item => item.offsetParent && [...item.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
    .filter(item => {
      const style = getComputedStyle(item)
      const both = [light(style.color), light(ground(item))].sort((one, other) => other - one)
      return both[0] / both[1] < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)
    })
    .map(item => item.innerText)
}"""
"""Text with less contrast than required by the guidelines for accessible pages (WCAG, AA)."""


def test_all_views_load_without_errors_in_all_sizes_and_color_schemes(look: Look) -> None:
    with ServedPage(still) as served:
        for size, dark in ((WIDE, False), (WIDE, True), (PHONE, False), (PHONE, True)):
            window = look(size, dark=dark)
            for view in VIEWS:
                window.open(served.url, view)
                assert window.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
                assert window.page.locator("main h1").count() == (view != "no-such-view"), view
                assert window.page.evaluate(UNNAMED) == [], view
                assert window.page.evaluate(FAINT) == [], view
            assert window.page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
            assert [message for message in window.problems if "422" not in message] == []


def test_skip_link_keeps_the_view(look: Look) -> None:
    with ServedPage(still) as served:
        window = look(WIDE)
        window.open(served.url, "queues")
        output = window.page.locator("main h1").inner_text()
        window.page.locator("a.skip").focus()
        window.page.keyboard.press("Enter")
        assert window.page.evaluate("document.activeElement.id") == "main"
        assert window.page.locator("main h1").inner_text() == output


def explanation(key: str) -> PodExplanation:
    with loaded().session(policy()) as session:
        return explain_pod(session, key)


@pytest.mark.parametrize("key", ["shop/big-1", "shop/held", "shop/web-1"])
def test_pod_view_equals_the_output_of_explain(look: Look, key: str) -> None:
    explained = elsewhere(lambda: explanation(key))
    printed = io.StringIO()
    print_explanation(explained, Console(file=printed, width=2000))
    headline, *lines = [line.strip() for line in printed.getvalue().splitlines() if line.strip()]
    with ServedPage(still) as served:
        window = look()
        window.open(served.url, f"pod/{quote(key, safe='')}")
        window.wait_for("All nodes")
        for summary in window.page.locator("details.message summary").all():
            summary.click()
        output = window.text().lower()
    assert " ".join(headline.removeprefix(key).split()).lower() in output
    hints = ("Scores: ", "Use -v 1 to show ")  # the page shows scores as a table, and everything that -v 1 adds
    sentences = [line for line in lines if " : " not in line and not any(hint in line for hint in hints)]
    for line in sentences:
        message = line.lstrip("0123456789. ") if line[:2].rstrip(".").isdigit() else line
        assert " ".join(message.split()).lower() in output, line


def test_search_finds_pods_and_nodes(look: Look) -> None:
    with ServedPage(still) as served:
        window = look()
        window.open(served.url)
        window.page.fill("#search input", "n1")
        window.page.press("#search input", "Enter")
        window.wait_for("shop/web-1")
        window.wait_for("Nodes: n1")
        assert "shop/big-1" not in window.text()
        window.page.select_option("select[aria-label=State]", "pending")
        window.wait_for("No pods")
        assert window.problems == []


def test_namespace_applies_to_all_lists(look: Look) -> None:
    elsewhere_pod = pod("far", "9")
    elsewhere_pod["metadata"]["namespace"] = "batch"
    with ServedPage(lambda: still((*SMALL, elsewhere_pod))) as served:
        window = look()
        window.open(served.url, "pods")
        window.page.select_option("select[aria-label=Namespace]", "batch")
        window.page.wait_for_function("() => !document.querySelector('main').innerText.includes('shop/')")
        window.page.click("#nav a[data-name=waiting]")
        window.wait_for("batch/far")
        assert "shop/" not in window.text()
        assert window.problems == []


def test_tables_of_nodes_fit_on_a_phone(look: Look) -> None:
    with ServedPage(lambda: still(fleet(12, 60, 2))) as served:
        window = look(PHONE)
        for view, text in (("nodes", "node-03"), ("node/node-03", "KubeletReady")):
            window.open(served.url, view)
            window.wait_for(text)
            assert window.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
            scrolling = "[...document.querySelectorAll('.scroll')].filter(item => item.scrollWidth > item.clientWidth)"
            assert window.page.evaluate(f"{scrolling}.length") == 0, view


def test_navigation_remains_reachable_on_a_phone(look: Look) -> None:
    with ServedPage(lambda: played(TIMED, {"as configured": "", "most.yaml": MOST_ALLOCATED})) as served:
        window = look(PHONE)
        window.open(served.url, "pods")
        window.wait_for("shop/too-big")
        window.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        outside = window.page.evaluate("""() => [...document.querySelectorAll('#nav a')].filter(link => {
            const box = link.getBoundingClientRect()
            return box.left < 0 || box.right > innerWidth || box.top < 0 || box.bottom > innerHeight
        }).map(link => link.innerText)""")
        assert outside == []


def test_decisive_reason_is_the_headline_and_names_its_pod(look: Look) -> None:
    gpu = {"example.com/gpu": "1"}
    wants = [pod(name) for name in ("one", "two")]
    for item in wants:
        item["spec"]["containers"][0]["resources"]["requests"] |= gpu
    taint = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    nodes = (node("n1"), node("n2"), node("n3", spec=taint, allocatable=gpu))
    with ServedPage(lambda: still((*nodes, *wants))) as served:
        window = look()
        window.open(served.url)
        window.wait_for("possible fix for one")
        assert window.page.inner_text("li.reason a.first") == "nodes had untolerated taint(s)"


def test_click_or_key_on_the_map_opens_a_node(look: Look) -> None:
    with ServedPage(still) as served:
        window = look()
        window.open(served.url, "nodes")
        window.page.locator("canvas.map").click(position={"x": 10, "y": 30})
        window.wait_for("Pods on this node: 2")
        window.open(served.url, "nodes")
        window.page.focus("canvas.map")
        window.page.keyboard.press("End")
        assert "n3" in window.page.inner_text("#announcement")
        assert "example.com/gpu 0 of 2" in window.page.inner_text("#announcement")
        window.page.keyboard.press("Enter")
        window.wait_for("Near misses")
        assert "node/n3" in window.page.url
        assert window.problems == []


def test_time_slider_and_comparison_of_two_runs(look: Look) -> None:
    with ServedPage(lambda: played(TIMED, {"as configured": "", "most.yaml": MOST_ALLOCATED})) as served:
        window = look()
        window.open(served.url)
        window.wait_for("12 scheduled so far")
        slider = window.page.locator("input[type=range]")
        slider.focus()
        window.page.keyboard.press("Home")
        window.wait_for("Pending 1")
        window.wait_for("0 scheduled so far")
        slider.fill("30")
        window.wait_for("Pods on nodes 8")
        window.page.click("text=Compare")
        window.wait_for("most.yaml")
        assert window.page.locator("canvas.map").count() == 2
        window.wait_for("differ")
        assert window.problems == []


def test_drained_node_shows_moved_pods(look: Look) -> None:
    with ServedPage(lambda: still((*SMALL, node("n4")))) as served:
        window = look()
        window.open(served.url, "node/n1")
        window.page.click("text=Simulate a drain")
        window.wait_for("Moved pods: 2")
        row = window.page.locator("tr", has_text="shop/web-1").inner_text().split()
        assert row == ["shop/web-1", "n1", "n4"]
        window.page.fill("textarea", "kind: {")
        window.page.click("button.primary")
        window.page.wait_for_selector(".row .status.error:has-text('The simulation failed')")
        assert [message for message in window.problems if "422" not in message] == []


HOSTILE = "<img src=x onerror=alert(1)>"


def test_hostile_names_remain_text(look: Look) -> None:
    taint = {"key": "<script>alert(2)</script>", "effect": "NoSchedule"}
    views = ["", "nodes", "waiting", "queues", "node/n9", "pod/shop%2Fevil", "pod/shop%2Fplain"]
    wild = node("n9", labels={"rack": HOSTILE}, spec={"taints": [taint]})
    asks = pod("evil", schedulerName=HOSTILE)
    gated = pod("gated", schedulingGates=[{"name": "</script><script>alert(3)</script>"}])
    with ServedPage(lambda: still((wild, pod("plain"), asks, gated))) as served:
        window = look()
        for view in (*views, f"pod/{quote(HOSTILE, safe='')}"):
            window.open(served.url, view)
            window.page.wait_for_timeout(200)
            assert window.page.locator("main img, main script").count() == 0
        window.open(served.url, "waiting")
        window.wait_for(HOSTILE)
        window.open(served.url, "node/n9")
        window.wait_for("<script>alert(2)</script>")
        assert [message for message in window.problems if "422" not in message] == []


def test_lost_connection_is_shown_and_restored(look: Look) -> None:
    with ServedPage(still) as served:
        window = look()
        window.open(served.url)
        window.wait_for("Pending pods")
        served.go_away()
        window.page.wait_for_selector("#banner:not([hidden])")
        assert "does not respond" in window.page.inner_text("#banner")
        assert "Insufficient cpu" in window.text()
        served.come()
        window.page.wait_for_selector("#banner", state="hidden")
        window.wait_for("Insufficient cpu")


def test_empty_cluster_shows_a_message(look: Look) -> None:
    with ServedPage(lambda: still(())) as served:
        window = look()
        window.open(served.url)
        window.wait_for("No nodes")
        window.wait_for("No pending pods")
        assert window.problems == []


def test_ten_thousand_reasons_can_be_browsed(look: Look) -> None:
    with ServedPage(lambda: still((node("n1"), *others(10_000)))) as served:
        window = look()
        window.open(served.url)
        window.wait_for("Pending 10,000")
        window.wait_for("9,994 more reasons")
        window.open(served.url, "waiting")
        window.wait_for("1 to 50 of 10,000")
        window.page.get_by_role("button", name="Next").click()
        window.wait_for("51 to 100 of 10,000")
        window.page.fill("main input[type=search]", "scheduler-07777")
        window.wait_for("shop/odd-07777")
        assert window.page.locator("li.reason").count() == 1
        assert window.problems == []


def test_token_is_requested_and_stored(look: Look) -> None:
    with ServedPage(still, token="let-me-in") as served:
        window = look()
        window.page.goto(served.url)
        window.wait_for("Token required")
        assert "Insufficient" not in window.text()
        window.page.fill("input[name=token]", "let-me-in")
        window.page.click("text=Show the page")
        window.wait_for("Pending pods")


def test_large_cluster_is_drawn_completely(look: Look) -> None:
    with ServedPage(lambda: still(fleet(300, 900, 20))) as served:
        window: Looker = look()
        window.open(served.url, "nodes")
        window.page.select_option("label:has-text('Group') select", "example.com/rack")
        window.page.select_option("label:has-text('Color') select", "nvidia.com/gpu")
        window.page.select_option("label:has-text('Size') select", "cpu")
        window.page.click("summary")
        window.wait_for("and 200 more nodes")
        drawn = window.page.evaluate("""() => {
            const canvas = document.querySelector('canvas.map');
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return new Set(new Uint32Array(pixels.buffer)).size;
        }""")
        assert drawn > 5
        assert window.problems == []


def test_timeline_of_the_queue_shows_expected_starts(look: Look) -> None:
    with ServedPage(still) as served:
        for size in (WIDE, PHONE):
            window = look(size)
            window.open(served.url, "queues")
            window.page.wait_for_selector(".timeline tbody tr")
            assert "possible futures of the queue were simulated" in window.text()
            assert "does not start unless the cluster changes" in window.text()
            assert window.page.locator(".timeline thead .span span").first.is_visible(), "the axis has labels"
            assert window.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert window.problems == []
