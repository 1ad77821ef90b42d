"""Names and labels, with the texts of kube-apiserver 1.37: names are measured in characters, labels in bytes."""

import pytest

from moorage.kube.admission.checks.names import label_value, qualified_name, subdomain

LABEL_KEYS = {
    "a name": ("app", []),
    "a name with a prefix": ("example.com/app", []),
    "an empty prefix": ("/app", ["prefix part must be non-empty"]),
    "an empty name": ("example.com/", ["name part must be non-empty", "name part must consist of"]),
    "a long name": ("a" * 64, ["name part must be no more than 63 bytes"]),
    "a short name of many bytes": ("é" * 32, ["name part must be no more than 63 bytes", "name part must consist of"]),
    "a long prefix": (f"{'a' * 254}/app", ["prefix part must be no more than 253 bytes"]),
    "an invalid prefix": ("A/app", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
    "two slashes": ("a/b/c", ["a valid label key must consist of alphanumeric characters"]),
}


@pytest.mark.parametrize(("key", "problems"), LABEL_KEYS.values(), ids=LABEL_KEYS)
def test_problems_of_label_keys(key: str, problems: list[str]) -> None:
    messages = [*qualified_name(key)]
    assert len(messages) == len(problems)
    assert all(message.startswith(problem) for message, problem in zip(messages, problems, strict=True))


LABEL_VALUES = {
    "an empty value": ("", []),
    "a long value": ("a" * 64, ["must be no more than 63 bytes"]),
    "an invalid value": ("-", ["a valid label must be an empty string or consist of alphanumeric characters"]),
}


@pytest.mark.parametrize(("value", "problems"), LABEL_VALUES.values(), ids=LABEL_VALUES)
def test_problems_of_label_values(value: str, problems: list[str]) -> None:
    messages = [*label_value(value)]
    assert len(messages) == len(problems)
    assert all(message.startswith(problem) for message, problem in zip(messages, problems, strict=True))


def test_length_of_names_is_reported_in_characters() -> None:
    assert [*subdomain("a" * 254)] == ["must be no more than 253 characters"]
