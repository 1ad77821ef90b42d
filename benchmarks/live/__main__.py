"""`make bench`, `make bench-start`: both schedulers drain the same pending pods on the same control plane, in turns."""

from collections.abc import Sequence

from benchmarks.live import records, workload
from benchmarks.live.comparing import drained
from benchmarks.live.session import control_plane, parser
from benchmarks.live.tables import show_drains


def main() -> None:
    """Run the benchmarks selected on the command line."""
    command = parser(__doc__, nodes="5000")
    command.add_argument("--workloads", type=_names, default="basic", help="comma-separated names, or all")
    command.add_argument("--pods", type=int, default=0, help="number of pods (default: that of the workload)")
    options = command.parse_args()
    with control_plane() as plane:
        works = [workload.load(name, nodes, options.pods) for nodes in options.nodes for name in options.workloads]
        for work in works:
            rounds = drained(plane, work, options)
            records.add(options.json, "drain", [each.row() for each in rounds], options.flags)
    show_drains(records.read(options.json))


def _names(text: str) -> Sequence[str]:
    return workload.drained() if text == "all" else text.split(",")


if __name__ == "__main__":
    main()
