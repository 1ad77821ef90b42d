import pytest

from moorage.cluster.runs.history import PodHistory, Utilization
from moorage.cluster.runs.run_report import utilization_table, wait_summary


def test_wait_summary_is_empty_without_waiting_pods() -> None:
    assert wait_summary([PodHistory("default/p", 0.0, node="a")]) == ""


TABLES = {
    "without groups": (
        [Utilization("memory", 2**33, 2**32, 2**32, 2**31)],
        "Resource  Allocatable  At the end  Mean       Peak\nmemory    8Gi          4Gi (50%)   2Gi (25%)  4Gi (50%)",
    ),
    "with groups, one of nodes without the label": (
        [Utilization("cpu", 4.0, 0.5, 1.0, 0.25, "x"), Utilization("cpu", 0.0, 0.0, 0.0, 0.0)],
        "Group  Resource  Allocatable  At the end  Mean      Peak\n"
        "x      cpu       4            0.5 (12%)   0.2 (6%)  1 (25%)\n"
        "-      cpu       0            0 (-)       0 (-)     0 (-)",
    ),
}


@pytest.mark.parametrize(("rows", "table"), TABLES.values(), ids=TABLES)
def test_utilization_is_laid_out(rows: list[Utilization], table: str) -> None:
    assert utilization_table(rows) == table
