"""Check queueing hints: whenever the scheduler is idle, no pending pod would be placed by a retry."""

from moorage.scheduler.engine.cycle.search_result import NoNode
from moorage.scheduler.engine.scheduler import Scheduler


def stranded(scheduler: Scheduler) -> list[str]:
    """Return pending pods that would be placed by a retry, with the plugins that rejected them last.

    Pods with an error in the last attempt are skipped: the queue retries them. The scheduler is not changed.
    """
    results = []
    for queued in scheduler.queue:
        runner = scheduler.runners[queued.scheduler_name]
        gates = [status for plugin in runner.profile.pre_enqueue if (status := plugin.pre_enqueue(queued.pod))]
        if not gates and queued.rejectors and not isinstance(runner.find(queued.pod), NoNode):
            results.append(f"{queued.key} waits in {scheduler.queue.where(queued.pod)} for {sorted(queued.rejectors)}")
    return results
