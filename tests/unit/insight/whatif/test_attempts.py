"""Attempts in a session."""

from tests.unit.insight.explain.clusters import node, pod, session


def test_attempt_is_printed_in_one_line() -> None:
    """In a notebook it is what one sees: where the pod was removed, or why not."""
    with session(node("n1"), pod("p"), pod("big", requests={"cpu": "9"})) as opened:
        assert repr(opened.try_pod("default/p")) == "Attempt(pod='default/p', node='n1')"
        assert repr(opened.try_pod("default/big")).startswith("Attempt(pod='default/big', message='0/1 nodes are")
