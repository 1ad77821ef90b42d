from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.selectors import EVERYTHING, NOTHING, LabelMatcher, Requirement
from moorage.scheduler.state.label_bits import LabelBits

KEYS, VALUES, NAMESPACES = st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from(["n", "m"])
OBJECTS = st.lists(st.tuples(NAMESPACES, st.dictionaries(KEYS, VALUES)), max_size=20)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.frozensets(VALUES)),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)
MATCHERS = st.one_of(
    st.sampled_from([NOTHING, EVERYTHING]), st.builds(LabelMatcher, st.lists(REQUIREMENTS, max_size=3).map(tuple))
)
QUESTIONS = st.lists(st.tuples(st.none() | st.frozensets(NAMESPACES), MATCHERS), max_size=20)


@given(objects=OBJECTS, questions=QUESTIONS)
def test_counts_equal_those_of_single_selectors(
    objects: list[tuple[str, dict[str, str]]], questions: list[tuple[frozenset[str] | None, LabelMatcher]]
) -> None:
    want = [
        sum((names is None or namespace in names) and matcher.matches(labels) for names, matcher in questions)
        for namespace, labels in objects
    ]
    assert LabelBits(objects).count(questions).tolist() == want
