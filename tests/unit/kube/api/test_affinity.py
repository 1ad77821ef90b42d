import pytest

from moorage.kube.api.affinity import Taint, Toleration

TAINT = Taint("key", "value", "NoSchedule")

CASES = {
    "equal in all": (Toleration("key", "Equal", "value", "NoSchedule"), True),
    "Equal is the default": (Toleration("key", "", "value"), True),
    "another value": (Toleration("key", "Equal", "other"), False),
    "no value is a value": (Toleration("key", "Equal"), False),
    "Exists needs no value": (Toleration("key", "Exists"), True),
    "Exists ignores a value": (Toleration("key", "Exists", "other"), True),
    "another key": (Toleration("other", "Exists"), False),
    "an empty key is every key": (Toleration("", "Exists"), True),
    "an empty key with Equal compares the value": (Toleration("", "Equal", "value"), True),
    "an empty key with another value": (Toleration("", "Equal", "other"), False),
    "an empty effect is every effect": (Toleration("key", "Exists", effect=""), True),
    "another effect": (Toleration("key", "Exists", effect="NoExecute"), False),
    "comparison operators are behind a gate": (Toleration("key", "Gt", "value"), False),
    "an unknown operator": (Toleration("key", "Like", "value"), False),
}


@pytest.mark.parametrize(("toleration", "want"), CASES.values(), ids=CASES)
def test_tolerates(toleration: Toleration, want: bool) -> None:
    assert toleration.tolerates(TAINT) is want


def test_taints_that_repel_pods() -> None:
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule", "")
    assert [effect for effect in effects if Taint("k", effect=effect).repels_pods] == ["NoSchedule", "NoExecute"]
