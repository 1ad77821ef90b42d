"""Original texts of objects: kept as kube-scheduler keeps objects, with the node of a placed pod."""

import msgspec

from moorage.kube.api.codec import decode
from moorage.kube.api.node import Node
from moorage.kube.api.originals import carry_original, keep_original, whole
from moorage.kube.api.pod import Pod

META = {"name": "a", "managedFields": [{"manager": "x"}]}


def written(obj: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(obj))


def test_pod_keeps_unknown_fields_but_no_managed_fields() -> None:
    body = msgspec.json.encode({"kind": "Pod", "apiVersion": "v1", "metadata": META, "spec": {"hostname": "h"}})
    pod = decode(Pod, body)
    keep_original(pod, msgspec.Raw(body))
    assert written(whole(pod)) == {"metadata": {"name": "a"}, "spec": {"hostname": "h"}}
    placed = pod.on_node("n1")
    assert written(whole(placed)) == {"metadata": {"name": "a"}, "spec": {"hostname": "h", "nodeName": "n1"}}


def test_node_keeps_managed_fields() -> None:
    body = msgspec.json.encode({"metadata": META})
    node = decode(Node, body)
    keep_original(node, msgspec.Raw(body))
    assert written(whole(node)) == {"metadata": META}


def test_object_without_a_text_is_written_by_its_struct() -> None:
    pod, copy = Pod(), Pod()
    assert whole(pod) is pod
    carry_original(pod, copy)
    assert whole(copy) is copy
    keep_original(pod, msgspec.Raw(b'{"spec": {"x": 1}}'))
    carry_original(pod, copy)
    assert written(whole(copy)) == {"spec": {"x": 1}}
