"""Runs many scenes with both schedulers, and reports the differences."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from moorage.kube.client.rest import ApiClient
from tests.conformance.compare import Difference
from tests.conformance.generator import Case
from tests.live.controllers import controller_manager
from tests.live.differential.comparison import differences
from tests.live.differential.play import Fate, Play
from tests.live.differential.provisioner import GeneralProvisioner
from tests.live.differential.scene import Scene, make_scene
from tests.live.differential.sides import OURS, THEIRS, side
from tests.live.differential.stage import Stage
from tests.support.control_plane import ControlPlane

VOLUMES: Final = "persistentvolume-binder-controller"


@dataclass
class Account:
    """The result of a run."""

    clusters: int = 0
    pods: int = 0
    chances: int = 0
    fleeting: int = 0
    found: list[tuple[str, Difference]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        differing = {(seed, difference.pod) for seed, difference in self.found}
        return f"{self.clusters} clusters, {self.pods} pods, {len(differing)} differences"

    def add(self, fates: list[Fate]) -> None:
        """Count the results of pods."""
        for fate in fates:
            kind = "bound" if fate.node else fate.reason or "held back"
            self.seen[kind] += 1
            self.seen["preempting"] += bool(fate.victims)
            self.seen["with volumes"] += bool(fate.volumes)
            self.seen["with devices"] += any(fate.devices.values())


class Differential:
    """Run one control plane for all scenes."""

    def __init__(self, plane: ControlPlane, console: Console, save: Path | None = None) -> None:
        self._plane = plane
        self._console = console
        self._save = save
        self.account = Account()

    def run(self, seed: str, first: int, count: int) -> Account:
        """Compare the requested number of scenes."""
        output = Progress(console=self._console, transient=True, disable=not self._console.is_terminal)
        with controller_manager(self._plane, VOLUMES), output as bar:
            task = bar.add_task("comparing", total=count)
            for number in range(first, first + count):
                self.compare(make_scene(seed, number))
                bar.advance(task)
            asyncio.run(self._tear_down())
        return self.account

    async def _tear_down(self) -> None:
        async with ApiClient(self._plane.connection()) as client:
            await Stage(client).tear_down()

    def compare(self, scene: Scene) -> None:
        """Run a scene with both schedulers; repeat it if there are differences, because clocks are not compared."""
        result, pods, fates = self._play_both(scene)
        self.account.clusters += 1
        self.account.pods += pods
        self.account.chances += not result and pods < len(fates)
        self.account.add(fates[:pods])
        if not result:
            return
        again, _, _ = self._play_both(scene)
        if [item.path for item in again] != [item.path for item in result]:
            self.account.fleeting += 1
            self._console.print(f"seed {scene.seed}: differed once, and not when played again", highlight=False)
        else:
            self.account.found += [(scene.seed, item) for item in result]
        self._show(scene, result, fates[pods - 1] if pods else None)

    def _play_both(self, scene: Scene) -> tuple[list[Difference], int, list[Fate]]:
        try:
            upstream = asyncio.run(self._play(scene, THEIRS))
            actual = asyncio.run(self._play(scene, OURS))
        except Exception as error:
            error.add_note(f"this was the cluster of seed {scene.seed}")
            raise
        mismatches, pods = differences(actual, upstream, scene)
        return mismatches, pods, upstream

    async def _play(self, scene: Scene, name: str) -> list[Fate]:
        async with ApiClient(self._plane.connection()) as client:
            stage = Stage(client)
            await stage.tear_down()
            await stage.set_up(scene)
            with _background(GeneralProvisioner(client)), side(name, self._plane, scene) as scheduler:
                fates = await Play(stage, scene, scheduler, records=name == THEIRS).run()
            if name == THEIRS:
                self.account.refused += stage.refused
            return fates

    def _show(self, scene: Scene, mismatches: list[Difference], fate: Fate | None) -> None:
        self._console.rule(f"seed {scene.seed}")
        if fate is not None:
            self._console.print(json.dumps(scene.entrant(fate.pod).pod), markup=False, highlight=False)
            self._console.print(f"profiles: {json.dumps(scene.config['profiles'])}", markup=False, highlight=False)
        for item in mismatches:
            self._console.print(str(item), markup=False, highlight=False)
        if self._save is not None and fate is not None:
            self._keep(scene, fate, self._save)

    def _keep(self, scene: Scene, fate: Fate, directory: Path) -> None:
        """Write the cluster before the pod, in the format of the conformance tools."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{scene.seed.replace('/', '-')}-{fate.pod}.json"
        case = Case(scene.seed, fate.before, scene.config, feature_gates=scene.feature_gates)
        path.write_text(json.dumps({"seed": scene.seed, **case.request(0)}, indent=1))
        self._console.print(f"the cluster as {fate.pod} found it: {path}", highlight=False)


@contextmanager
def _background(provisioner: GeneralProvisioner) -> Iterator[None]:
    task = asyncio.get_running_loop().create_task(provisioner.run())
    try:
        yield
    finally:
        task.cancel()
