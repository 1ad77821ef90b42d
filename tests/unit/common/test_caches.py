"""Bounded caches: eviction, admission, budgets and the report."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manual.reference import find_caches

from moorage.common.caches import LRU, MAX_KEY_LENGTH, MAX_VALUE_LENGTH, AdmissionLRU, cached, report_caches, short_key
from moorage.kube.api import affinity_terms, shape
from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from moorage.kube.api.selectors import LabelSelector
from moorage.testing import make_pod


@given(st.integers(1, 12), st.lists(st.integers(0, 30)))
def test_entries_never_exceed_the_limit(limit: int, keys: list[int]) -> None:
    cache: LRU[int, int] = LRU("test", limit, lambda key: key + 1)
    for key in keys:
        assert cache.lookup(key) == key + 1
        assert len(cache) <= max(2, limit)


def test_frequently_used_entries_remain() -> None:
    cache: LRU[int, int] = LRU("test", 10)
    cache.put(0, 100)
    for key in range(1, 1000):
        cache.put(key, key)
        assert cache.find(0) == 100
    assert cache.find(1) is None


def test_values_of_the_old_generation_are_not_recomputed() -> None:
    computed: list[int] = []
    cache: LRU[int, int] = LRU("test", 4, lambda key: computed.append(key) or key)
    for key in (1, 2, 3, 1, 2):
        assert cache.lookup(key) == key
    assert computed == [1, 2, 3]


def test_removal_covers_both_generations() -> None:
    cache: LRU[str, int] = LRU("test", 2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.discard("a")
    assert (cache.find("a"), cache.find("b")) == (None, 2)
    cache.clear()
    assert len(cache) == 0


def test_second_use_of_a_key_stores_the_value() -> None:
    cache: AdmissionLRU[str, int] = AdmissionLRU("test", 4)
    cache.put("shared", 1)
    assert cache.find("shared") == 1
    for number in range(100):
        cache.put(f"own {number}", number)
    assert cache.find("shared") == 1
    assert cache.find("own 98") is None
    assert cache.find("own 99") == 99


def test_seen_keys_are_remembered_after_their_value_is_dropped() -> None:
    cache: AdmissionLRU[str, int] = AdmissionLRU("test", 4)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.find("a") is None
    cache.put("a", 3)
    cache.put("c", 4)
    assert cache.find("a") == 3


@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 30), st.integers(2, 12))))
def test_on_drop_is_called_for_every_evicted_entry(limit: int, steps: list[tuple[int, int]]) -> None:
    dropped: list[int] = []
    cache: LRU[int, int] = LRU("test", limit, on_drop=lambda key, value: dropped.append(key))
    expected: set[int] = set()
    for key, resized in steps:
        cache.resize(resized)
        if cache.find(key) is None:
            cache.put(key, key)
            expected.add(key)
        expected.difference_update(dropped)
        dropped.clear()
        assert {key for key, _ in cache.items()} == expected


def test_calls_with_long_texts_are_not_cached() -> None:
    calls: list[str] = []

    @cached(8)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    short, long = "a", "a" * (MAX_KEY_LENGTH + 1)
    assert [length(short), length(short), length(long), length(long)] == [1, 1, len(long), len(long)]
    assert calls == [short, long, long]


def test_calls_with_long_objects_are_not_cached() -> None:
    calls: list[tuple[str, ...]] = []

    @cached(8, lambda texts: sum(map(len, texts)))
    def count(texts: tuple[str, ...]) -> int:
        calls.append(texts)
        return len(texts)

    short, long = ("a", "b"), ("a" * MAX_VALUE_LENGTH, "b")
    assert [count(short), count(short), count(long), count(long)] == [2, 2, 2, 2]
    assert calls == [short, long, long]


@pytest.mark.parametrize("size", [100, 2 * MAX_VALUE_LENGTH])
def test_pods_with_huge_specs_are_not_cached(size: int) -> None:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"a": "x" * size}))
    affinity = Affinity(pod_affinity=PodAffinity(required=(term,)))
    pod = make_pod("huge", affinity=affinity, node_selector={"a": "x" * size})
    before = len(shape._shapes), len(affinity_terms._parsed)
    assert pod.shape is not None
    assert affinity_terms.affinity_terms(pod).affinity
    added = len(shape._shapes) - before[0], len(affinity_terms._parsed) - before[1]
    assert added == ((1, 1) if size < MAX_VALUE_LENGTH else (0, 0))


@given(st.binary(max_size=3 * MAX_KEY_LENGTH), st.binary(max_size=3 * MAX_KEY_LENGTH))
def test_short_keys_are_short_and_distinct(first: bytes, second: bytes) -> None:
    assert len(short_key(first)) <= MAX_KEY_LENGTH
    assert (short_key(first) == short_key(second)) == (first == second)


def test_report_lists_caches_by_name_until_they_are_deleted() -> None:
    name = "test report"
    caches: list[LRU[int, int]] = [LRU(name, 10), LRU(name, 20)]
    caches[0].put(1, 1)
    caches[1].put(1, 1)
    caches[1].put(2, 2)
    report = next(report for report in report_caches() if report.name == name)
    assert (report.caches, report.entries, report.budget) == (2, 3, 30)
    del caches[:]
    report = next(report for report in report_caches() if report.name == name)
    assert (report.caches, report.entries, report.budget) == (0, 0, 0)


def test_report_lists_cached_functions() -> None:
    @cached(8)
    def double(number: int) -> int:
        return 2 * number

    assert [double(1), double(1), double(2)] == [2, 2, 4]
    report = next(report for report in report_caches() if report.name.endswith("double"))
    assert (report.entries, report.budget) == (2, 8)


SOURCE = Path(__file__).parents[3] / "src" / "moorage"
MODULES = {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def test_functions_without_a_budget_have_no_arguments_or_types_only() -> None:
    unbounded = []
    for path, tree in MODULES.items():
        for node in ast.walk(tree):
            decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
            if isinstance(node, ast.FunctionDef) and {"cache", "functools.cache"} & {*decorators}:
                kinds = [ast.unparse(argument.annotation or ast.Constant("")) for argument in node.args.args]
                unbounded += [f"{path}: {node.name}" for kind in kinds if not kind.startswith("type[")]
    assert not unbounded, "use cached() of moorage.common.caches"


def test_lru_cache_is_used_only_by_the_named_caches() -> None:
    using = {
        str(path)
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.alias | ast.Attribute)
        and "lru_cache" in (getattr(node, "id", ""), getattr(node, "name", ""), getattr(node, "attr", ""))
    }
    assert using == {"common/caches.py"}


def find_filled_dicts(tree: ast.Module) -> Iterator[str]:
    """Yield the names of ordinary dicts of a module that its functions fill."""
    dicts = {
        ast.unparse(node.target)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict) and not node.value.keys
    }
    dicts |= {
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and not node.value.keys
        for target in node.targets
    }
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Subscript) and ast.unparse(target.value) in dicts:
                yield ast.unparse(target.value)


REGISTRIES = {"common/caches.py": {"_caches", "_functions"}}


def test_no_module_keeps_values_in_a_plain_dict() -> None:
    filled = {str(path): {*find_filled_dicts(tree)} for path, tree in MODULES.items()}
    caches = {path: names - REGISTRIES.get(path, set()) for path, names in filled.items()}
    assert {path: names for path, names in caches.items() if names} == {}, "use LRU, cached() or a weak dict"


def test_filled_dicts_are_detected() -> None:
    source = "a = {}\nb: dict[str, int] = {}\nc = {'x': 1}\ndef f(k):\n    a[k] = 1\n    b[k] = 2\n    c[k] = 3\n"
    assert {*find_filled_dicts(ast.parse(source))} == {"a", "b"}


def test_every_cache_is_created_with_a_name_and_a_budget() -> None:
    unnamed = [
        f"{path}:{node.lineno}"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("LRU", "AdmissionLRU")
        and str(path) != "common/caches.py"
        and not (len(node.args) >= 2 and isinstance(node.args[0], ast.Constant | ast.JoinedStr))
    ]
    assert not unnamed


def test_generated_page_lists_the_caches_of_the_debug_page() -> None:
    items = {name for path in MODULES for name, _ in find_caches(SOURCE / path)}
    functions = [report.name for report in report_caches() if report.name.startswith("moorage.")]
    assert functions
    assert [name for name in functions if f"`{name.rpartition('.')[2]}()`" not in items] == []
