import pytest

from moorage.kube.api.container import Container
from moorage.kube.api.node import ContainerImage, Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.volume import ImageVolume, Volume
from moorage.scheduler.plugins.image_locality import ImageLocality, image_names, normalized
from moorage.testing import make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

MI = 1024 * 1024


def cluster(size: int, image: str, *, on: int, of: int) -> Rig:
    return Rig(*(make_node(f"n{i}", images={image: size} if i < on else {}) for i in range(of)))


NAMES = {
    "a tag remains": ("app:1", "app:1"),
    "no tag means latest": ("app", "app:latest"),
    "a registry's port is not a tag": ("host:5000/app", "host:5000/app:latest"),
    "a tag behind a port remains": ("host:5000/app:2", "host:5000/app:2"),
    "a digest remains": ("app@sha256:abc", "app@sha256:abc"),
    "an empty name": ("", ":latest"),
}


@pytest.mark.parametrize(("image", "want"), NAMES.values(), ids=NAMES)
def test_normalized(image: str, want: str) -> None:
    assert normalized(image) == want


SCORES = {
    "an image on few nodes counts little": (300 * MI, 10, 50, 3),
    "one on all nodes counts fully": (600 * MI, 50, 50, 59),
    "less than the minimum counts nothing": (22 * MI, 50, 50, 0),
    "more than the maximum counts 100": (5000 * MI, 50, 50, 100),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("size", "on", "of", "want"), SCORES.values(), ids=SCORES)
def test_score(form: ScoreForm, size: int, on: int, of: int, want: int) -> None:
    rig = cluster(size, "app:1", on=on, of=of)
    assert run_score(ImageLocality(handle=rig), rig, make_pod(image="app:1"), form) == [want] * on + [0] * (of - on)


PODS = {
    "the name must be the same text": (make_pod(image="docker.io/library/app:1"), 0),
    "an image used twice counts twice, and so does the maximum": (
        make_pod(containers=(Container("a", "app:1"), Container("b", "app:1"))),
        59,
    ),
    "init containers count": (make_pod(init_containers=(Container("i", "app:1"),), image="other"), 29),
    "image volumes count": (
        make_pod(volumes=(Volume(name="v", image=ImageVolume(reference="app:1")),), image="other"),
        29,
    ),
    "other volumes do not": (make_pod(volumes=(Volume(name="v"),), image="app:1"), 59),
    "a pod without containers": (make_pod(containers=()), 0),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("pod", "want"), PODS.values(), ids=PODS)
def test_score_of_several_images(form: ScoreForm, pod: Pod, want: int) -> None:
    rig = cluster(600 * MI, "app:1", on=1, of=1)
    assert run_score(ImageLocality(handle=rig), rig, pod, form) == [want]


def holding(name: str, *images: ContainerImage) -> Node:
    node = make_node(name)
    return Node(metadata=node.metadata, spec=node.spec, status=type(node.status)(images=images))


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_image_size_is_from_the_first_node(form: ScoreForm) -> None:
    small, large = make_node("small", images={"app:1": 100 * MI}), make_node("large", images={"app:1": 1000 * MI})
    rig = Rig(small, large)
    plugin = ImageLocality(handle=rig)
    assert run_score(plugin, rig, make_pod(), form) == [7, 7]
    rig.cache.remove_node("small")
    assert run_score(plugin, rig, make_pod(), form) == [7]
    rig.add(holding("large"))
    rig.add(large)
    assert run_score(plugin, rig, make_pod(), form) == [100]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_an_image_has_all_its_names(form: ScoreForm) -> None:
    rig = Rig(holding("n", ContainerImage(names=("app:1", "app@sha256:abc", "app:1"), size_bytes=600 * MI)))
    for name in ("app:1", "app@sha256:abc"):
        assert run_score(ImageLocality(handle=rig), rig, make_pod(image=name), form) == [59]


def test_epoch_depends_on_nodes_and_images_only() -> None:
    rig = cluster(600 * MI, "app:1", on=1, of=2)
    plugin = ImageLocality(handle=rig)
    before = plugin.epoch()
    rig.add(make_node("n0", images={"app:1": 600 * MI}, labels={"new": "label"}), make_pod(node="n0"))
    assert plugin.epoch() == before
    rig.add(make_node("n1", images={"app:1": 600 * MI}))
    with_image = plugin.epoch()
    assert with_image != before
    rig.cache.remove_node("n0")
    assert plugin.epoch() not in (before, with_image)


def test_pods_with_equal_images_share_results() -> None:
    assert image_names(make_pod("a", image="app")) == image_names(make_pod("b", image="app:latest"))
