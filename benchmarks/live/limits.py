"""Explain the result of a goal row in words, from the numbers alone."""

from benchmarks.live.medians import OTHERS, Comparison


def explanation(each: Comparison, cores: int) -> str:
    """Explain the result, the missed goals, and the limit of the machine."""
    assert each.goal is not None
    sentences = [f"**{each.title}**: {each.judgement}."]
    if each.problems:
        sentences.append(f"{each.problems} rounds ended with a cluster that failed the checks: see below.")
    if not each.meets_cpu:
        sentences.append(
            f"{each.cpu_ratio:.1f} times less CPU than kube-scheduler, goal {each.goal.less_cpu:.1f}: "
            f"{each.ours['cpu_ms_per_pod']:.2f} ms a pod ({each.ours['cpu_ms_per_pod_after_start']:.2f} after the "
            f"first bind), which would have to be {each.theirs['cpu_ms_per_pod'] / each.goal.less_cpu:.2f} here."
        )
    if not each.meets_speed:
        sentences += [
            f"{each.speedup:.1f} times kube-scheduler's speed where {each.goal.speedup:g} times is the goal.",
            ceiling(each, cores),
        ]
    return " ".join(sentences)


def ceiling(each: Comparison, cores: int) -> str:
    """Compare with a scheduler without cost, and describe the load of the machine."""
    server = each.ours["server_cpu_ms_per_pod"]
    most = cores * 1000 / server if server else 0.0
    idle, others_share = each.ours["idle_share"], each.ours["others_share"]
    idle_text = f"The machine was idle for {idle:.0%} of the time"
    if others_share > OTHERS:
        return f"{idle_text}, and other programs took {others_share:.0%} of it: speeds of this run are not meaningful."
    rival_speed = each.theirs["pods_per_second"]
    times = f": {most / rival_speed:.1f} times kube-scheduler's" if rival_speed else ""
    return (
        f"{idle_text}. API server and etcd took {server:.2f} ms a pod, so {cores} cores end at {most:,.0f} pods/s "
        f"even with a scheduler that costs nothing{times}."
    )
