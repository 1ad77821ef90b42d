"""Candidates of an index equal those of a search through all selectors."""

from random import Random

import pytest

from moorage.kube.api.selectors import LabelMatcher, LabelSelector, LabelSelectorRequirement, label_matcher
from moorage.scheduler.state.selector_index import SelectorIndex

KEYS, VALUES, NAMESPACES = "abc", "xyz", ("one", "two", "three")


def random_selector(chance: Random) -> LabelSelector:
    requirements = [
        LabelSelectorRequirement(
            key=chance.choice(KEYS),
            operator=(operator := chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))),
            values=tuple(chance.sample(VALUES, chance.randint(1, 2))) if operator in ("In", "NotIn") else (),
        )
        for _ in range(chance.randint(0, 3))
    ]
    return LabelSelector(match_expressions=tuple(requirements))


@pytest.mark.parametrize("seed", range(5))
def test_candidates_contain_all_matches_once(seed: int) -> None:
    chance, index = Random(seed), SelectorIndex[int]()
    filed: dict[int, tuple[frozenset[str] | None, LabelMatcher]] = {}
    for number in range(200):
        if filed and chance.random() < 0.4:
            removed = chance.choice([*filed])
            index.remove(removed, *filed.pop(removed))
        else:
            some = None if chance.random() < 0.3 else frozenset(chance.sample(NAMESPACES, chance.randint(1, 2)))
            filed[number] = (some, label_matcher(random_selector(chance)))
            index.add(number, *filed[number])
        namespace = chance.choice(NAMESPACES)
        labels = {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.6}
        matches = {
            item
            for item, (some, matcher) in filed.items()
            if (some is None or namespace in some) and matcher.matches(labels)
        }
        candidates = index.find(namespace, labels)
        assert matches <= set(candidates)
        assert len(candidates) == len(set(candidates))
    for item, (some, matcher) in filed.items():
        index.remove(item, some, matcher)
    assert not index
    assert index.find("one", {"a": "x"}) == []
