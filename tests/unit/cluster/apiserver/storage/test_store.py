import pytest

from moorage.cluster.apiserver.storage.store import MAX_HISTORY_BYTES, Store
from moorage.common.errors import Gone
from moorage.kube.api.pod import Pod


def test_json_can_be_read_as_a_struct_and_is_decoded_once():
    store = Store()
    entry = store.put(
        "pods", "default/a", {"metadata": {"name": "a", "namespace": "default"}, "spec": {"nodeName": "n"}}
    )
    assert entry.typed(Pod).node_name == "n"
    assert entry.typed(Pod) is entry.typed(Pod)


def test_subscribers_receive_every_change() -> None:
    store, changes = Store(), []
    store.subscribe(lambda resource, change: changes.append((resource, change.event, change.version)))
    store.put("pods", "default/a", {"metadata": {"name": "a"}})
    store.put("pods", "default/a", {"metadata": {"name": "a"}, "spec": {}})
    store.remove("pods", "default/a")
    assert changes == [("pods", "ADDED", 1), ("pods", "MODIFIED", 2), ("pods", "DELETED", 3)]


def test_log_returns_changes_after_a_version_until_they_expire():
    store = Store(history=3)
    for number in range(8):
        store.put("pods", f"p{number}", {"metadata": {"name": f"p{number}"}})
    log = store.log("pods")
    assert [change.version for change in log.since(log.find_position(6))] == [7, 8]
    with pytest.raises(Gone, match="too old resource version: 1"):
        log.find_position(1)


def test_changes_of_a_quiet_resource_do_not_expire_early():
    store = Store(history=3)
    store.put("nodes", "n", {"metadata": {"name": "n"}})
    for number in range(20):
        store.put("pods", f"p{number}", {"metadata": {"name": f"p{number}"}})
    log = store.log("nodes")
    assert [change.version for change in log.since(log.find_position(0))] == [1]


def test_slow_reader_gets_an_expired_error():
    store = Store(history=2)
    log = store.log("pods")
    position = log.end
    for number in range(10):
        store.put("pods", f"p{number}", {"metadata": {"name": f"p{number}"}})
    with pytest.raises(Gone, match="fell behind"):
        log.since(position)


def test_history_is_bounded_in_bytes() -> None:
    store = Store()
    for number in range(400):
        store.put(
            "configmaps", "default/big", {"metadata": {"name": "big"}, "data": {"n": str(number), "x": "y" * 10**6}}
        )
    log = store.log("configmaps")
    retained_bytes = sum(
        change.after.size for change in log.since(log.find_position(log.forgotten_version)) if change.after
    )
    assert 10**7 < retained_bytes <= MAX_HISTORY_BYTES
    with pytest.raises(Gone):
        log.find_position(1)
