"""A plan as lines of text for a terminal, and as Markdown with the kubectl commands."""

from collections.abc import Iterator, Sequence
from typing import Final

from moorage.insight.plan.plan_model import Plan, PlannedEviction, PlanStep

MAX_LISTED: Final = 12
WAIT: Final = "Wait until the replacements are ready."
PROOFS: Final = {"heuristic": "lower bound of requests", "exhaustive": "exhaustive search", "cp-sat": "CP-SAT"}


def plan_lines(plan: Plan, *, is_verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a plan: the result, its steps, and the pods that cannot move."""
    yield headline(plan)
    limit = len(plan.cannot_move) + plan.summary.moves if is_verbose else MAX_LISTED
    for number, step in enumerate(plan.steps, start=1):
        yield ""
        yield f"step {number}{_step_note(step)}"
        if step.cordon:
            yield f"  cordon {' '.join(step.cordon)}"
        width = max((len(item.pod) for item in step.evict), default=0)
        for item in step.evict[:limit]:
            reason = f": {item.reason}" if item.reason else ""
            yield f"  {item.pod:<{width}}  {item.source} -> {_destination(item)}{reason}"
        if len(step.evict) > limit:
            yield f"  and {len(step.evict) - limit} more pods; -v 1 prints all"
        if step.uncordon:
            yield f"  uncordon {' '.join(step.uncordon)}"
    if plan.cannot_move:
        yield ""
        yield f"cannot move ({len(plan.cannot_move)}):"
        for stuck in plan.cannot_move[:limit]:
            yield f"  {stuck.pod} on {stuck.node}: {stuck.reason}"
        if len(plan.cannot_move) > limit:
            yield f"  and {len(plan.cannot_move) - limit} more; -v 1 prints all"
    if plan.pending:
        yield ""
        yield f"pending after the last step ({len(plan.pending)}):"
        for pending in plan.pending[:limit]:
            yield f"  {pending.pod}: {pending.message}"
    if plan.placed:
        yield ""
        yield "requested pods:"
        for placed in plan.placed[:limit]:
            yield f"  {placed.pod} -> {placed.node or f'pending: {placed.message}'}"
        if len(plan.placed) > limit:
            yield f"  and {len(plan.placed) - limit} more pods; -v 1 prints all"
    yield from _notes(plan)


def headline(plan: Plan) -> str:
    """Return the result in one line."""
    moves, steps = plan.summary.moves, len(plan.steps)
    amount = f"{_count(moves, 'move')} in {_count(steps, 'step')}, cost {plan.summary.cost:g}"
    if not plan.feasible:
        is_repeated = bool(plan.cannot_move) and any(item.reason in plan.reason for item in plan.cannot_move)
        verdict = "not feasible" if is_repeated else f"not feasible: {plan.reason}"
        verdict = plan.reason if plan.reason.startswith("impossible") else verdict
        return f"{plan.goal}: {verdict}{f' ({amount})' if steps else ''}"
    if not steps:
        return f"{plan.goal}: no moves are needed"
    emptied = plan.summary.nodes_emptied
    # Pods of a later batch may move to a node that an earlier batch of a rolling drain has emptied.
    verb = "drained" if plan.goal == "drain" else "emptied"
    result = f"; {_count(len(emptied), 'node')} {verb}" if emptied else ""
    saved = f", {plan.summary.price_saved:g} per hour saved" if plan.summary.price_saved else ""
    return f"{plan.goal}: feasible, {amount}{result}{saved}"


def _notes(plan: Plan) -> Iterator[str]:
    notes = [f"PodDisruptionBudget {name} limits the evictions per step" for name in plan.waits]
    if plan.extra_nodes is not None:
        notes.append(plan.extra_nodes.text)
    if plan.bound is not None:
        notes.append(bound_line(plan))
    notes += plan.notes
    if notes:
        yield ""
        yield from notes


def bound_line(plan: Plan) -> str:
    """Describe the bound of a plan."""
    assert plan.bound is not None
    bound = plan.bound
    amount = _count(bound.value, bound.unit.removesuffix("s"))
    if not bound.value:
        return f"no {bound.unit} are needed"
    if not bound.proven:
        return f"{amount} (not proven to be the minimum)"
    if (
        bound.by == "heuristic"
    ):  # the plan reaches this bound. The solver may prove a bound that the plan does not reach
        amount += " remains" if bound.value == 1 else " remain"
    return f"{amount} (proven minimum: {PROOFS[bound.by]})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _step_note(step: PlanStep) -> str:
    uses = ", ".join(f"{use.name} {use.used} of {use.allowed} allowed" for use in step.budgets)
    return f" (disruptions: {uses})" if uses else ""


def _destination(item: PlannedEviction) -> str:
    if not item.recreated:
        return "deleted, not recreated"
    if not item.node:
        return "pending"
    return f"{item.node} (or {', '.join(item.tied)}: same score)" if item.tied else item.node


def plan_markdown(plan: Plan) -> str:
    """Return the plan as Markdown: a table for each step, and the kubectl commands that carry it out."""
    lines = [f"# Plan: {plan.goal}", "", headline(plan), ""]
    lines += [f"Cluster `{plan.cluster.fingerprint}`, state of {plan.cluster.taken_at}.", ""]
    for number, step in enumerate(plan.steps, start=1):
        lines += [f"## Step {number}{_step_note(step)}", ""]
        if step.evict:
            lines += ["| pod | from | to |", "|---|---|---|"]
            lines += [f"| {item.pod} | {item.source} | {_destination(item)} |" for item in step.evict]
            lines.append("")
        lines += _console(kubectl_commands(step))
        if step.evict and (number < len(plan.steps) or step.uncordon):
            lines += [WAIT, ""]
        lines += _console(uncordon_commands(step))
    if plan.cannot_move:
        lines += ["## Pods that cannot move", ""]
        lines += [f"- {item.pod} on {item.node}: {item.reason}" for item in plan.cannot_move]
        lines.append("")
    if plan.pending:
        lines += ["## Pending after the last step", "", *(f"- {item.pod}: {item.message}" for item in plan.pending), ""]
    if plan.placed:
        lines += ["## The request", "", "| pod | node |", "|---|---|"]
        lines += [f"| {item.pod} | {item.node or 'pending'} |" for item in plan.placed] + [""]
    notes = list(_notes(plan))[1:]
    return "\n".join([*lines, *(f"- {note}" for note in notes), *([""] if notes else [])])


def kubectl_commands(step: PlanStep) -> list[str]:
    """Return the kubectl commands that cordon nodes and evict pods. The eviction API respects budgets."""
    commands = [f"kubectl cordon {name}" for name in step.cordon]
    for item in step.evict:
        namespace, _, name = item.pod.partition("/")
        body = (
            f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{name}","namespace":"{namespace}"}}}}'
        )
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        commands.append(f"echo '{body}' | kubectl create --raw {path} -f -")
    return commands


def uncordon_commands(step: PlanStep) -> list[str]:
    """Return the kubectl commands at the end of a step, after its replacements are ready."""
    return [f"kubectl uncordon {name}" for name in step.uncordon]


def _console(commands: Sequence[str]) -> list[str]:
    return ["```console", *(f"$ {command}" for command in commands), "```", ""] if commands else []
