from typing import Any

import pytest

from moorage.cluster.controllers.commands import annotations_of_command

RUN, CODE = "moorage.io/run-for", "moorage.io/exit-code"
CASES = {
    "nothing is said": ([], {}),
    "it sleeps": (["sleep", "300"], {RUN: "300s"}),
    "from anywhere": (["/bin/sleep", "2m"], {RUN: "120s"}),
    "for a moment": (["sleep", "0.5"], {RUN: "500ms"}),
    "it fails": (["/bin/sh", "-c", "exit 1"], {CODE: "1"}),
    "or succeeds": (["sh", "-c", "exit 0"], {CODE: "0"}),
    "it sleeps twice and fails": (["bash", "-c", "sleep 2; echo so far; sleep 3 && exit 42"], {RUN: "5s", CODE: "42"}),
    "what comes after the end does not matter": (["sh", "-c", "exit 3; sleep 5"], {CODE: "3"}),
    "the last command counts": (["sh", "-c", "false; true"], {}),
    "it is false": (["false"], {CODE: "1"}),
    "it depends": (["sh", "-c", "exit $(( $RANDOM / 2 ))"], {}),
    "it does something else": (["sh", "-c", "sleep 5; make"], {}),
    "it has words of its own": (["python", "-m", "train"], {}),
    "it sleeps for no time that can be told": (["sleep", "forever"], {}),
    "nothing but spaces": (["sh", "-c", "  "], {}),
}


@pytest.mark.parametrize(("command", "want"), CASES.values(), ids=CASES)
def test_what_a_command_would_do(command: list[str], want: dict[str, str]) -> None:
    for container in ({"command": command}, {"command": command[:1], "args": command[1:]}):
        assert annotations_of_command({"spec": {"containers": [container]}}) == want


OTHERS: dict[str, dict[str, Any]] = {
    "nothing at all": {},
    "several containers": {"spec": {"containers": [{"command": ["sleep", "1"]}, {}]}},
    "what the template says itself": {
        "metadata": {"annotations": {RUN: "1h"}},
        "spec": {"containers": [{"command": ["sleep", "1"]}]},
    },
}


@pytest.mark.parametrize("template", OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_told_or_is_known_is_not_told(template: dict[str, Any]) -> None:
    assert annotations_of_command(template) == {}
