"""Comparisons of answers of two releases, and of Moorage."""

import pytest
from tests.conformance.answers import Comparison
from tests.conformance.configurations import classify as classify_configuration
from tests.conformance.configurations import complete, make
from tests.conformance.libraries import Question, answer, classify, classify_ours
from tests.conformance.libraries import make as make_questions
from tests.conformance.releases import GATED, UNGATED, UPSTREAM

OLD, NEW = {"value": "1"}, {"value": "2"}
QUESTION = Question("cel", ["1 + 1"])


def test_differences_that_an_emulated_version_removes_have_a_gate() -> None:
    comparison = Comparison(["a", "b", "c"])
    find = [lambda before, after: classify(QUESTION, before, after)] * 3
    comparison.upstream([OLD, OLD, OLD], [NEW, NEW, OLD], [OLD, NEW, OLD], find)
    kind = "cel: value → value"
    assert comparison.counts == {(UPSTREAM, GATED, kind): 1, (UPSTREAM, UNGATED, kind): 1}
    assert comparison.print("Answers") == 0


def test_differences_of_moorage_are_defects(capsys: pytest.CaptureFixture[str]) -> None:
    comparison = Comparison(["a"])
    comparison.ours("1.38", [NEW], [{"error": "compile"}], [lambda *pair: classify_ours(QUESTION, *pair)])
    assert comparison.print("Answers") == 1
    assert "| ours | 1.38 | cel: value → compile | 1 |" in capsys.readouterr().out


def test_written_quantities_beyond_the_limit_are_not_compared() -> None:
    large = Question("quantity", ["10E"])
    theirs, ours = {"value": ["9", "9", "10E"]}, {"value": ["9", "9", "8E"]}
    assert classify_ours(large, theirs, ours) == []
    assert classify_ours(Question("quantity", ["1E"]), theirs, ours) != []
    assert classify_ours(large, theirs, {"value": ["8", "9", "10E"]}) != []


def test_new_expressions_are_those_of_the_oldest_api_server() -> None:
    masked = 'cidr("10.0.0.0/8").isMask()'
    assert answer(Question("cel", [masked]), "1.38", "1.37") == {"value": True}
    assert answer(Question("cel", [masked, "new"]), "1.38", "1.37") == {"error": "compile"}
    assert answer(Question("cel", [masked, "new"]), "1.38", "1.38") == {"value": True}


def test_random_questions_are_repeatable_and_can_be_answered() -> None:
    questions = make_questions(200, "a", names=True)
    assert questions == make_questions(200, "a", names=True)
    names = {"group name", "workload name"}
    assert {question.library for question in questions} == {"quantity", "sum", "cel", "labels", "fields"} | names
    results = [answer(question, "1.38", "1.37") for question in questions]
    assert {result.get("error") for result in results} >= {None, "evaluate", "invalid"}


def test_random_configurations_are_partly_invalid() -> None:
    results = [complete(make(number, "a"), "1.37") for number in range(60)]
    assert {type(result) for result in results} == {dict, list}


def test_configurations_differ_by_path() -> None:
    before, after = {"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}
    assert classify_configuration(before, after) == [("document: a.b[]", "2 → 3")]
    assert classify_configuration(before, ["no"]) == [("rejected", "['no']")]


def test_errors_differ_if_none_of_the_problems_is_that_of_kube_scheduler() -> None:
    text = "[parallelism: Invalid value: 0: should be positive, profiles: Required value]"
    assert classify_configuration(text, ["Invalid value: 0: should be positive"]) == []
    assert classify_configuration(text, ["something else"]) != []
