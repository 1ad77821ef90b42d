"""Watching files by content, even if they are replaced, and reloading a scheduler's plugins."""

import asyncio
import gc
import sys
import weakref
from pathlib import Path

import pytest

from moorage.cli.options import load_policy
from moorage.common.errors import ConfigError
from moorage.scheduler.daemon.config_reload import FileFollower, FilesFollowed
from moorage.testing import Cluster, in_virtual_time

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}
PLUGIN = """
from moorage import FilterPlugin, Status

class Picky(FilterPlugin):
    def filter(self, cycle, pod, node):
        return {answer}
"""


def test_a_file_is_followed_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("one")
    followed = FilesFollowed(lambda: [file])
    assert followed.look() == []
    file.write_text("two")
    assert followed.look() == [file]
    assert followed.look() == []
    other = tmp_path / "other"
    other.write_text("two")
    other.replace(file)
    assert followed.look() == [], "another file, the same content"


def test_the_link_of_a_config_map_is_followed(tmp_path: Path) -> None:
    # As the kubelet does it: config.yaml -> ..data/config.yaml, ..data -> a directory, and only that link is replaced.
    for number, text in enumerate(("one", "two")):
        (tmp_path / f"..v{number}").mkdir()
        (tmp_path / f"..v{number}" / "config.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..v0")
    file = tmp_path / "config.yaml"
    file.symlink_to("..data/config.yaml")
    followed = FilesFollowed(lambda: [file])
    (tmp_path / "..data_tmp").symlink_to("..v1")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert followed.look() == [file]


def test_a_file_that_is_away_for_a_moment_has_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("one")
    followed = FilesFollowed(lambda: [file])
    file.unlink()
    assert followed.look() == []
    file.write_text("one")
    assert followed.look() == []
    file.unlink()
    assert (followed.look(), followed.look(), followed.look()) == ([], [file], [])
    file.write_text("one")
    assert followed.look() == [file]


class Told:
    """The results of changes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def reload_succeeded(self, fixed: list[str]) -> None:
        self.lines.append(f"taken {' '.join(fixed)}".strip())

    def reload_failed(self, problem: str) -> None:
        self.lines.append(problem)


def test_saving_a_plugin_or_a_configuration_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "followed_plugin", raising=False)
    plugin, config, report = tmp_path / "followed_plugin.py", tmp_path / "config.yaml", Told()
    plugin.write_text(PLUGIN.format(answer='Status.unschedulable("picky")'))
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: %s}]\n"
    config.write_text(text % "{multiPoint: {enabled: [{name: Picky}]}}")
    load_policy(config, ["followed_plugin:Picky"])

    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1) as cluster:
            scheduling = cluster.embedded.scheduling
            assert scheduling is not None
            follower = FileFollower(
                config,
                ["followed_plugin:Picky"],
                lambda: scheduling.reload(load_policy(config, ["followed_plugin:Picky"])),
                report,
            )
            following = asyncio.create_task(follower.run())
            follower.request_reload()  # as SIGHUP does
            await cluster.sleep(1.5)
            assert report.lines == ["taken"]
            await cluster.apply(POD)
            await cluster.wait_for(lambda: "picky" in cluster.why_pending("p"))

            plugin.write_text(PLUGIN.format(answer="!"))
            await cluster.sleep(1.5)
            assert "SyntaxError" in report.lines[1]
            config.write_text(text % "{multiPoint: {enabled: [{name: Pick")
            await cluster.sleep(1.5)
            assert "config.yaml" in report.lines[2] or "SyntaxError" in report.lines[2]
            plugin.write_text(PLUGIN.format(answer='Status.unschedulable("choosy")'))
            config.write_text(
                text % "{multiPoint: {enabled: [{name: Picky}]}}" + "leaderElection: {leaderElect: false}\n"
            )
            await cluster.wait_for(lambda: "choosy" in cluster.why_pending("p"))
            assert report.lines[3:] == ["taken leaderElection"]

            plugin.write_text(PLUGIN.format(answer="None"))
            await cluster.wait_for(lambda: bool(cluster.running()))
            following.cancel()

    story()


@pytest.mark.parametrize("error", [None, ConfigError("profiles", "invalid"), KeyError("x")])
def test_reloads_leave_no_cyclic_garbage(tmp_path: Path, error: Exception | None) -> None:
    """Collections are rare in a running scheduler: without one per reload, memory grew by 0.2 MiB each time."""

    class Part:
        def __init__(self) -> None:
            self.itself = self

    parts: list[weakref.ref[Part]] = []

    async def apply() -> list[str]:
        parts.append(weakref.ref(Part()))
        if error is not None:
            raise error
        return []

    @in_virtual_time
    async def story() -> None:
        follower = FileFollower(None, [], apply, Told())
        following = asyncio.create_task(follower.run())
        follower.request_reload()
        await asyncio.sleep(0.5)
        following.cancel()

    gc.disable()
    try:
        story()
    finally:
        gc.enable()
    assert [part() for part in parts] == [None]
