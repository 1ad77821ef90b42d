from moorage.kube.api.quantity import MAX_INT64
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig


def test_pods_larger_than_any_integer_do_not_stop_the_cache() -> None:
    huge = [make_pod(f"p{index}", node="node", requests={"memory": "8Ei"}) for index in range(2)]
    assert Rig(make_node(), *huge).nodes.requested["memory"].tolist() == [MAX_INT64]
