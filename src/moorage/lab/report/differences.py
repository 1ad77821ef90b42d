"""Pods with another node or waiting time under another policy, compared for one seed."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from msgspec import Struct

from moorage.lab.report.measures import format_wait
from moorage.lab.report.scenes import Scene
from moorage.lab.trial import PodRow

MAX_PODS: Final = 100
"""Maximum number of listed pods per comparison; the rows contain all."""


class MovedPod(Struct, frozen=True):
    """The results of two policies for one pod."""

    before: PodRow
    after: PodRow

    @property
    def delay(self) -> float:
        """The additional waiting time; infinite if the pod got no node."""
        before, after = (float("inf") if row.waited is None else row.waited for row in (self.before, self.after))
        return 0.0 if before == after else after - before


class Differences(Struct, frozen=True):
    """A comparison of all pods of one seed with the baseline."""

    pods: int
    other_node: int
    only_before: int
    """Number of pods that got a node only under the baseline."""
    only_after: int
    sooner: int
    later: int
    moved: Sequence[MovedPod]
    """Pods with another node or waiting time, largest differences first."""


def compare_pods(before: Mapping[str, PodRow], after: Mapping[str, PodRow]) -> Differences:
    """Compare the pods of two trials of one seed."""
    pairs = [MovedPod(row, after[name]) for name, row in before.items() if name in after]
    moved = [pod for pod in pairs if pod.before.node != pod.after.node or pod.delay]
    waits = [(pod.before.waited is None, pod.after.waited is None) for pod in pairs]
    return Differences(
        pods=len(pairs),
        other_node=sum(1 for pod in moved if pod.before.node and pod.after.node and pod.before.node != pod.after.node),
        only_before=waits.count((False, True)),
        only_after=waits.count((True, False)),
        sooner=sum(1 for pod in pairs if pod.delay < 0),
        later=sum(1 for pod in pairs if pod.delay > 0),
        moved=sorted(moved, key=lambda pod: (-abs(pod.delay), pod.before.pod)),
    )


def render_differences(scene: Scene, baseline: str) -> str:
    """Compare the pods of each policy with the baseline, for the first seed that both have."""
    parts = []
    by_seed = {result.trial.seed: result for result in scene.by_name[baseline] if result.pods}
    for name in scene.names:
        compared = next((r for r in scene.by_name[name] if r.trial.seed in by_seed and r.pods), None)
        if name != baseline and compared is not None:
            before = {row.pod: row for row in by_seed[compared.trial.seed].pods}
            differences = compare_pods(before, {row.pod: row for row in compared.pods})
            parts.append(_render_policy(name, baseline, compared.trial.seed, differences))
    return f"<h2>Pods on other nodes</h2>{''.join(parts)}" if parts else ""


def _render_policy(name: str, baseline: str, seed: int, differences: Differences) -> str:
    counts = {
        f"{differences.other_node:,} of {differences.pods:,} pods got another node": True,
        f"{differences.sooner:,} got a node sooner, {differences.later:,} later": differences.sooner
        or differences.later,
        f"{differences.only_after:,} got a node only here": differences.only_after,
        f"{differences.only_before:,} got a node only under {baseline}": differences.only_before,
    }
    summary = "; ".join(text for text, is_relevant in counts.items() if is_relevant)
    rows = "".join(map(_render_pod, differences.moved[:MAX_PODS]))
    head = f"<tr><th>Pod</th><th>Class</th><th>{escape(baseline)}</th><th>{escape(name)}</th><th>Waited</th></tr>"
    hidden = len(differences.moved) - MAX_PODS
    note = f"<p class=quiet>{hidden:,} more are in pods.jsonl.</p>" if hidden > 0 else ""
    return (
        f"<details><summary><b>{escape(name)}</b>, seed {seed}: {escape(summary)}.</summary>"
        f'<div class="scroll"><table class="pods"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        f"{note}</details>"
    )


def _render_pod(pod: MovedPod) -> str:
    before, after = ("never" if row.waited is None else format_wait(row.waited) for row in (pod.before, pod.after))
    waited = before if before == after else f"{before} → {after}"
    cells = (pod.before.pod, pod.before.kind or "–", pod.before.node or "–", pod.after.node or "–", waited)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
