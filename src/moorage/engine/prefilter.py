"""Running the pre-filters: who has nothing to do, which nodes are worth looking at, and who says no at once."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from moorage.api.pod import Pod
from moorage.engine.boundary import failure
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.faults import PLUGIN_FAULTS, pass_on_interrupt
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import NodeNames, PreFilterAnswer, PreFilterPlugin
from moorage.framework.status import SKIP, Code, Status

Remembered = Mapping[str, PreFilterAnswer | PluginError]


class PreFiltered(Struct):
    """What the pre-filters said together: a rejection, or the names of the only nodes to look at."""

    rejection: Status | None = None
    names: frozenset[str] | None = None
    narrowing: set[str] = field(default_factory=set)

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Keep only these nodes; when none is left, that is a rejection."""
        self.narrowing.add(plugin)
        self.names = names if self.names is None else self.names & names
        if not self.names:
            plugins = " ".join(sorted(self.narrowing))
            many = f"node(s) didn't satisfy plugin(s) [{plugins}] simultaneously"
            self.rejection = Status.unresolvable(
                many if len(self.narrowing) > 1 else f"node(s) didn't satisfy plugin {plugins}"
            )


def run_pre_filters(
    plugins: Iterable[PreFilterPlugin],
    cycle: CycleState,
    pod: Pod,
    nodes: NodeTable,
    remembered: Remembered | None = None,
) -> PreFiltered:
    """Ask the pre-filters in order; those with a remembered answer are not asked again."""
    result = PreFiltered()
    for plugin in plugins:
        if remembered is None or plugin.name not in remembered:
            answer = ask_pre_filter(plugin, cycle, pod, nodes)
        else:
            answer = _recalled(remembered[plugin.name])
        if answer is None:
            continue
        if answer is SKIP:
            cycle.skipped_filters.add(plugin.name)
        elif isinstance(answer, NodeNames):
            result.narrow(plugin.name, answer.names)
            if not answer.names or not result.names:
                return result
        elif answer.code == Code.SKIP:
            cycle.skipped_filters.add(plugin.name)
        elif answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFiltered(answer.by(plugin.name))
        elif answer.code == Code.UNSCHEDULABLE:
            result.rejection = answer.by(plugin.name)
        else:
            raise failure("PreFilter", plugin.name, answer.message)
    return result


def _recalled(known: PreFilterAnswer | PluginError) -> PreFilterAnswer:
    if isinstance(known, PluginError):
        raise known
    return known


def ask_pre_filter(plugin: PreFilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
    """Ask one pre-filter and refuse answers that are none."""
    try:
        answer = plugin.pre_filter(cycle, pod, nodes)
    except PluginError:
        raise
    except PLUGIN_FAULTS as error:
        pass_on_interrupt(error)
        raise failure("PreFilter", plugin.name, error) from error
    if answer is None or answer is SKIP or isinstance(answer, NodeNames):
        return answer
    if not isinstance(answer, Status):
        raise failure("PreFilter", plugin.name, f"it answered {answer!r}, which is no answer of PreFilter")
    return None if answer.code == Code.SUCCESS else answer
