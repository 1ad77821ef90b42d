"""Why a row of the goals is as it is, in words, from the numbers alone."""

from benchmarks.live.medians import OTHERS, Comparison


def explanation(each: Comparison, cores: int) -> str:
    """Say what was reached, what was missed, and what the machine would have allowed."""
    assert each.goal is not None
    said = [f"**{each.title}**: {each.judgement}."]
    if each.problems:
        said.append(f"{each.problems} rounds ended with a cluster that failed the checks: see below.")
    if not each.meets_cpu:
        said.append(
            f"{each.cpu_ratio:.1f} times less CPU than kube-scheduler, goal {each.goal.less_cpu:.1f}: "
            f"{each.ours['cpu_ms_per_pod']:.2f} ms a pod ({each.ours['cpu_ms_per_pod_after_start']:.2f} after the "
            f"first bind), which would have to be {each.theirs['cpu_ms_per_pod'] / each.goal.less_cpu:.2f} here."
        )
    if not each.meets_speed:
        said += [
            f"{each.speedup:.1f} times kube-scheduler's speed where {each.goal.speedup:g} times is the goal.",
            ceiling(each, cores),
        ]
    return " ".join(said)


def ceiling(each: Comparison, cores: int) -> str:
    """Say how fast a scheduler that costs nothing would be, and what the machine did instead."""
    server = each.ours["server_cpu_ms_per_pod"]
    most = cores * 1000 / server if server else 0.0
    idle, others = each.ours["idle_share"], each.ours["others_share"]
    used = f"The machine was idle for {idle:.0%} of the time"
    if others > OTHERS:
        return f"{used}, and other programs took {others:.0%} of it: speeds of this run are not meaningful."
    theirs = each.theirs["pods_per_second"]
    times = f": {most / theirs:.1f} times kube-scheduler's" if theirs else ""
    return (
        f"{used}. API server and etcd took {server:.2f} ms a pod, so {cores} cores end at {most:,.0f} pods/s "
        f"even with a scheduler that costs nothing{times}."
    )
