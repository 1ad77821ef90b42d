"""The cluster's columns after any history are those of a table that is made of the same nodes at once."""

from hypothesis import given
from hypothesis import strategies as st

from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.state.cache import Cache
from moorage.testing import make_node

IMAGES = ("web", "db")
Step = tuple[str, dict[str, int] | None]

steps = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c", "d")),
        st.none() | st.dictionaries(st.sampled_from(IMAGES), st.just(100)),
    ),
    max_size=20,
)


@given(steps)
def test_images_match_the_current_nodes(history: list[Step]) -> None:
    cache = Cache()
    for name, images in history:
        for image in IMAGES:
            cache.nodes.holds_image(image)
        if images is not None:
            cache.add_node(make_node(name, images=images))
        elif cache.node(name) is not None:
            cache.remove_node(name)
    anew = NodeTable.of(*cache.nodes)
    for image in IMAGES:
        assert cache.nodes.holds_image(image).tolist() == anew.holds_image(image).tolist()
        cached, counted = cache.nodes.image(image), anew.image(image)
        assert (cached and (cached.size, cached.node_count)) == (counted and (counted.size, counted.node_count))
