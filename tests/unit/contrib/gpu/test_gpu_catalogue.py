"""The plugins for GPUs: where they are, that the configuration knows them, and that both their forms agree."""

import re
import subprocess
import sys
from random import Random

import pytest
from hypothesis import strategies as st
from tests.support.gpus import gpu_pod

from moorage.contrib.gpu.fgd import FGD
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.catalogue import GPU_PLUGINS
from moorage.scheduler.config.gpu_args import FGDArgs, TypicalShape
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.registry import extension_points
from moorage.scheduler.plugins.catalogue import GPU
from moorage.scheduler.wiring.policy import collect_plugins
from moorage.testing import check_plugin, make_node

SHAPES = (
    TypicalShape(cpu_milli=4000, pods=3),
    TypicalShape(cpu_milli=2000, gpus=1, gpu_milli=300, pods=5),
    TypicalShape(cpu_milli=1000, gpus=1, gpu_milli=1000, gpu_models=("T4",), pods=2),
    TypicalShape(cpu_milli=8000, gpus=2, gpu_milli=1000, pods=1),
)


@pytest.mark.parametrize("name", GPU_PLUGINS)
def test_the_configuration_knows_where_a_plugin_is_called(name: str) -> None:
    plugin = collect_plugins()[name]
    assert plugin.name == name
    assert extension_points(plugin) == GPU_PLUGINS[name].points
    assert plugin.Args is GPU_PLUGINS[name].args


@pytest.mark.parametrize("name", GPU_PLUGINS)
def test_a_plugin_is_found_by_its_name(name: str) -> None:
    file = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    assert GPU[name] == f"moorage.contrib.gpu.{file}:{name}"


def test_both_tables_have_the_same_plugins() -> None:
    assert GPU.keys() == GPU_PLUGINS.keys()


def test_unused_plugins_are_not_imported() -> None:
    script = (
        "import sys; from moorage.scheduler.wiring.policy import *; load_policy(collect_plugins()); "
        "print([name for name in sys.modules if name.startswith('moorage.contrib.gpu')])"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"


def clusters_with_gpus() -> st.SearchStrategy[tuple[KubeObject, ...]]:
    """Draw clusters with GPUs on some nodes, and pods that have parts of them, rightly or not."""
    return st.randoms(use_true_random=False).map(_cluster)


def _cluster(chance: Random) -> tuple[KubeObject, ...]:
    objects: list[KubeObject] = []
    for number in range(chance.randint(1, 5)):
        gpus = chance.choice((0, 1, 2, 4, 8))
        model = {GPU_MODEL: chance.choice(("T4", "G2"))} if chance.random() < 0.8 else {}
        name = f"n{number}"
        has = {"cpu": chance.choice((8, 64)), GPU_COUNT: gpus, GPU_MILLI: 1000 * gpus}
        objects.append(make_node(name, labels=model, allocatable=has))
        objects += [_neighbour(chance, f"{name}-{index}", name) for index in range(chance.randint(0, 4))]
    return tuple(objects)


def _neighbour(chance: Random, name: str, node: str) -> Pod:
    devices = chance.choice((None, "0", "1", "0,1", "7", "x", "0,0"))
    more = {} if devices is None else {GPU_DEVICES: devices}
    return gpu_pod(name, gpus=chance.choice((0, 1, 1, 2)), milli=chance.choice((250, 500, 1000)), node=node, more=more)


def incoming() -> st.SearchStrategy[Pod]:
    """Draw pods that request GPUs in various ways."""
    return st.builds(
        gpu_pod,
        st.just("incoming"),
        gpus=st.sampled_from((0, 1, 1, 2, 4)),
        milli=st.sampled_from((1, 300, 500, 1000)),
        models=st.sampled_from(("", "T4", "T4|G2", "H100")),
        cpu=st.sampled_from((0, 1000, 12000)),
        more=st.sampled_from(({}, {}, {GPU_MILLI: "lots"})),
    )


@pytest.mark.parametrize("name", [name for name in GPU_PLUGINS if name != "FGD"])
def test_both_forms_agree(name: str) -> None:
    check_plugin(collect_plugins()[name], clusters=clusters_with_gpus(), pods=incoming(), examples=60)


def test_both_forms_of_fgd_agree() -> None:
    def given(handle: Handle) -> FGD:
        return FGD(args=FGDArgs(typical_shapes=SHAPES), handle=handle)

    def learned(handle: Handle) -> FGD:
        return FGD(handle=handle)

    check_plugin(given, learned, clusters=clusters_with_gpus(), pods=incoming(), examples=60)
