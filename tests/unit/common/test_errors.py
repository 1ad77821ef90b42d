"""Messages of errors: hints, notes and limits."""

from moorage.common.errors import (
    MAX_NAME,
    MAX_PROBLEMS,
    ConfigError,
    ConfigErrors,
    InputError,
    UnknownPluginError,
    Unreachable,
    did_you_mean,
    explain,
)


def test_message_has_place_problem_and_hint() -> None:
    error = InputError("--port", "too large", hint="write 8080")
    assert str(error) == "--port: too large\n  hint: write 8080"
    assert str(InputError("--port", "too large")) == "--port: too large"


def test_closest_name_is_suggested_for_short_names_only() -> None:
    assert did_you_mean("parallelsm", ["parallelism", "profiles"]) == "did you mean 'parallelism'?"
    assert did_you_mean("unlike", ["parallelism"]) == ""
    assert did_you_mean("a" * (MAX_NAME + 1), ["a" * MAX_NAME]) == ""


def test_unknown_plugin_suggests_a_name_or_the_flag() -> None:
    assert UnknownPluginError("NodeNmae", where="x", names=["NodeName"]).hint == "did you mean 'NodeName'?"
    assert "--plugin" in UnknownPluginError("Mine", where="x", names=["NodeName"]).hint


def test_several_problems_are_listed_up_to_a_limit() -> None:
    errors = ConfigErrors([ConfigError(f"field{number}", "wrong") for number in range(MAX_PROBLEMS + 5)])
    assert (errors.where, errors.problem) == ("field0", "wrong")
    lines = str(errors).splitlines()
    assert (len(lines), lines[-1]) == (MAX_PROBLEMS + 1, "… and 5 more")


def test_explanation_starts_with_the_file() -> None:
    error = ConfigErrors([ConfigError("a", "wrong"), ConfigError("b", "wrong")])
    error.add_note("config.yaml")
    assert explain(error) == "config.yaml: 2 problems\n  a: wrong\n  b: wrong"
    only = ConfigErrors([ConfigError("a", "wrong")])
    assert explain(only) == "a: wrong"


def test_unreachable_server_may_have_got_the_request() -> None:
    assert (Unreachable("no").was_sent, Unreachable("no", was_sent=False).was_sent) == (True, False)
