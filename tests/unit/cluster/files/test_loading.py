"""Reading clusters: the defaults of an API server, and one clear message for each mistake."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cluster.files.loading import ClusterInput, build_cluster_input, cluster_from_documents
from moorage.common.errors import InputError
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.meta import format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import CSIDriver, PersistentVolume, StorageClass
from moorage.kube.api.workloads import ReplicationController
from moorage.kube.features import GATES, FeatureGates
from moorage.kube.manifests import read_files


def thing(kind: str, name: str = "a", api: str = "v1", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def pod(name: str = "a", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return thing("Pod", name, metadata={"labels": labels or {}}, spec={"containers": [{"name": "c"}], **spec})


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return thing("PriorityClass", name, "scheduling.k8s.io/v1", value=value, **fields)


def admitted(*contents: dict[str, Any], features: FeatureGates | None = None) -> Pod:
    return build_cluster_input(contents, features=features or FeatureGates()).of(Pod)[0]


def asking(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


class TestIdentity:
    def test_objects_keep_their_order_and_get_uids_and_ages_by_it(self) -> None:
        cluster = build_cluster_input([thing("Node", "n1"), pod("late"), pod("early", priority=5), thing("Node", "n0")])

        assert [item.key for item in cluster.objects] == ["n1", "default/late", "default/early", "n0", "default"]
        assert [item.uid for item in cluster.objects] == ["uid-0", "uid-1", "uid-2", "uid-3", "uid-4"]
        assert [item.metadata.creation_timestamp for item in cluster.objects[:2]] == [
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:01Z",
        ]
        assert [item.metadata.resource_version for item in cluster.objects[:2]] == ["1", "2"]

    def test_uid_and_creation_time_are_kept(self) -> None:
        identified = pod()
        identified["metadata"] |= {"uid": "u", "creationTimestamp": "2025-05-05T05:05:05Z"}

        assert (admitted(identified).uid, admitted(identified).metadata.creation_timestamp) == (
            "u",
            "2025-05-05T05:05:05Z",
        )

    def test_namespaces_are_labeled_and_missing_namespaces_created(self) -> None:
        away = pod("b")
        away["metadata"]["namespace"] = "away"
        cluster = build_cluster_input([pod(), away, thing("Namespace", "away", metadata={"labels": {"team": "x"}})])

        assert {item.name: item.labels for item in cluster.of(Namespace)} == {
            "away": {"team": "x", "kubernetes.io/metadata.name": "away"},
            "default": {"kubernetes.io/metadata.name": "default"},
        }

    def test_pods_are_running_pending_or_neither(self) -> None:
        finished, leaving = pod("ended"), pod("leaving")
        finished["status"] = {"phase": "Succeeded"}
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster = build_cluster_input([finished, leaving, pod("waits"), pod("runs", nodeName="n")])

        assert [item.name for item in cluster.pending] == ["waits"]
        assert [item.name for item in cluster.running] == ["runs"]

    def test_now_is_after_every_time_in_the_input(self) -> None:
        started = pod(nodeName="n")
        started["status"] = {"startTime": "2026-02-01T00:00:00Z"}

        assert format_time(build_cluster_input([pod("b")]).now) == "2026-01-01T00:00:02Z"
        assert format_time(build_cluster_input([started]).now) == "2026-02-01T00:00:01Z"


class TestDefaults:
    def test_a_pod_gets_the_default_scheduler_and_is_pending(self) -> None:
        admitted_pod = admitted(pod())

        assert (admitted_pod.spec.scheduler_name, admitted_pod.status.phase) == ("default-scheduler", "Pending")

    REQUESTS = {
        "limits replace missing requests": (
            asking({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}),
            {"cpu": "1", "memory": "1Gi"},
        ),
        "an explicit zero is a request": (asking({"cpu": 0}, {"cpu": "2"}), {"cpu": 0}),
        "what is finer than a thousandth is rounded up": (
            asking({"cpu": "100u", "memory": "1n"}),
            {"cpu": "1m", "memory": "1m"},
        ),
        "nothing remains nothing": (asking(), {}),
    }

    @pytest.mark.parametrize(("container", "want"), REQUESTS.values(), ids=REQUESTS)
    @pytest.mark.parametrize("field", ["containers", "initContainers"])
    def test_container_requests(self, container: dict[str, Any], want: dict[str, Any], field: str) -> None:
        spec = admitted(pod(**{field: [container]})).spec
        containers = spec.containers if field == "containers" else spec.init_containers

        assert containers[0].resources.requests == want

    POD_LEVEL = {
        "none given, none made": ({}, [asking({"cpu": "1"})], None),
        "limits become requests of containers without requests": ({"limits": {"cpu": "2"}}, [asking()], {"cpu": "2"}),
        "requests of containers take precedence over limits": (
            {"limits": {"cpu": "2", "memory": "2Gi"}},
            [asking({"cpu": "250m"}), asking({"cpu": "250m"})],
            {"cpu": "500000000n", "memory": "2Gi"},
        ),
        "given requests remain": (
            {"requests": {"cpu": "3"}},
            [asking({"cpu": "1", "memory": "1"})],
            {"cpu": "3", "memory": 1},
        ),
        "extended resources have no pod level": ({"requests": {"cpu": "3"}}, [asking({"x.io/gpu": "1"})], {"cpu": "3"}),
        "huge pages come from the containers' limits": (
            {"requests": {"cpu": "3"}},
            [asking({}, {"hugepages-2Mi": "4Mi"})],
            {"cpu": "3", "hugepages-2Mi": 4194304},
        ),
    }

    @pytest.mark.parametrize(("level", "containers", "want"), POD_LEVEL.values(), ids=POD_LEVEL)
    def test_pod_level_requests(self, level: Any, containers: Any, want: Any) -> None:
        resources = admitted(pod(containers=containers, resources=level or None)).spec.resources

        assert (resources.requests if resources is not None else None) == want

    def test_a_start_up_peak_counts_for_pod_level_requests(self) -> None:
        sidecar = {**asking({"cpu": "1"}), "restartPolicy": "Always"}
        resources = admitted(
            pod(
                containers=[asking({"cpu": "1"})],
                initContainers=[sidecar, asking({"cpu": "5"})],
                resources={"limits": {"cpu": "9"}},
            )
        )

        assert resources.spec.resources is not None
        assert resources.spec.resources.requests == {"cpu": 6}

    def test_without_the_gate_there_is_no_pod_level(self) -> None:
        gate = "PodLevelResources"
        dependants = [name for name, spec in GATES.items() if gate in spec.needs]
        admitted_pod = admitted(
            pod(resources={"limits": {"cpu": "2"}}),
            features=FeatureGates(dict.fromkeys((gate, *dependants), False)),
        )

        assert admitted_pod.spec.resources is None

    @pytest.mark.parametrize(("on", "want"), [(True, ("noexec",)), (False, ())])
    def test_fields_of_features_that_are_off_are_dropped(self, on: bool, want: tuple[str, ...]) -> None:
        mount = {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}
        gates = FeatureGates({"VolumeBindMountOptions": on})
        admitted_pod = admitted(pod(containers=[{"name": "c", "volumeMounts": [mount]}]), features=gates)

        assert admitted_pod.spec.containers[0].volume_mounts[0].bind_mount_options == want

    def test_ports_on_the_host_network_are_host_ports(self) -> None:
        container = {
            "name": "c",
            "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"}],
        }
        on_host = admitted(pod(containers=[container], hostNetwork=True))
        elsewhere = admitted(pod(containers=[container]))

        assert on_host.host_ports == (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 8081))
        assert elsewhere.host_ports == (("0.0.0.0", "UDP", 8081),)
        assert [port.protocol for port in elsewhere.spec.containers[0].ports] == ["TCP", "UDP"]

    def test_other_kinds(self) -> None:
        cluster = build_cluster_input(
            [
                thing("Node", status={"capacity": {"cpu": "2"}}),
                thing("StorageClass", "s", "storage.k8s.io/v1", provisioner="p"),
                thing("CSIDriver", "d", "storage.k8s.io/v1"),
                thing("PersistentVolume", "v"),
                thing("ReplicationController", "r", spec={"template": {"metadata": {"labels": {"app": "web"}}}}),
            ]
        )

        assert cluster.of(Node)[0].allocatable == {"cpu": 2000}
        assert cluster.of(StorageClass)[0].volume_binding_mode == "Immediate"
        assert cluster.of(CSIDriver)[0].spec.attach_required is True
        assert cluster.of(PersistentVolume)[0].spec.volume_mode == "Filesystem"
        assert cluster.of(PersistentVolume)[0].status.phase == "Pending"
        assert cluster.of(ReplicationController)[0].spec.selector == {"app": "web"}


class TestPriority:
    CASES: dict[str, tuple[list[dict[str, Any]], tuple[int, str, str]]] = {
        "no class and no default means zero": ([pod()], (0, "", "PreemptLowerPriority")),
        "built-in classes are there": (
            [pod(priorityClassName="system-node-critical")],
            (2_000_001_000, "system-node-critical", "PreemptLowerPriority"),
        ),
        "a class may follow the pod": (
            [pod(priorityClassName="high"), priority_class("high", 7, preemptionPolicy="Never")],
            (7, "high", "Never"),
        ),
        "the global default is for pods without a class": (
            [pod(), priority_class("usual", 3, globalDefault=True)],
            (3, "usual", "PreemptLowerPriority"),
        ),
        "the lower of two global defaults counts": (
            [pod(), priority_class("b", 5, globalDefault=True), priority_class("a", 4, globalDefault=True)],
            (4, "a", "PreemptLowerPriority"),
        ),
        "a priority that a running cluster gave is kept, class or no class": (
            [pod(priority=9, priorityClassName="gone")],
            (9, "gone", "PreemptLowerPriority"),
        ),
        "a policy that was given is kept": ([pod(preemptionPolicy="Never")], (0, "", "Never")),
    }

    @pytest.mark.parametrize(("contents", "want"), CASES.values(), ids=CASES)
    def test_priority(self, contents: list[dict[str, Any]], want: tuple[int, str, str]) -> None:
        spec = admitted(*contents).spec

        assert (spec.priority, spec.priority_class_name, spec.preemption_policy) == want


class TestLabelKeys:
    def test_match_label_keys_go_into_affinity_selectors(self) -> None:
        term = {
            "topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["rev", "none"],
            "mismatchLabelKeys": ["tenant"],
        }
        affinity = {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        }
        result = admitted(pod(labels={"rev": "2", "tenant": "t"}, affinity=affinity)).spec.affinity

        assert result is not None
        assert result.pod_affinity is not None
        assert result.pod_anti_affinity is not None
        for merged in (result.pod_affinity.preferred[0].pod_affinity_term, result.pod_anti_affinity.required[0]):
            assert merged.label_selector is not None
            assert [(item.key, item.operator, item.values) for item in merged.label_selector.match_expressions] == [
                ("rev", "In", ("2",)),
                ("tenant", "NotIn", ("t",)),
            ]

    @pytest.mark.parametrize(("merges", "want"), [(True, 1), (False, 0)])
    def test_spread_selectors_are_merged_behind_a_gate(self, merges: bool, want: int) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
            "matchLabelKeys": ["rev"],
        }
        gates = FeatureGates({"MatchLabelKeysInPodTopologySpreadSelectorMerge": merges})
        admitted_pod = admitted(pod(labels={"rev": "2"}, topologySpreadConstraints=[constraint]), features=gates)

        selector = admitted_pod.spec.topology_spread_constraints[0].label_selector
        assert selector is not None
        assert len(selector.match_expressions) == want

    def test_a_null_selector_remains_null(self) -> None:
        term = {"topologyKey": "zone", "matchLabelKeys": ["rev"]}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        result = admitted(pod(labels={"rev": "2"}, affinity=affinity)).spec.affinity

        assert result is not None
        assert result.pod_affinity is not None
        assert result.pod_affinity.required[0].label_selector is None


class TestFiles:
    def test_lists_are_taken_apart_and_typed_items_need_no_kind(self) -> None:
        pod_list = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                thing("Node", "n"),
                {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "p"}}]},
            ],
        }

        assert [item.key for item in build_cluster_input([pod_list]).objects] == ["n", "default/p", "default"]

    def test_several_files_and_formats(self, tmp_path: Path) -> None:
        yaml_file, json_file = tmp_path / "a.yaml", tmp_path / "b.json"
        yaml_file.write_text(
            "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
            "---\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n2}\n"
        )
        json_file.write_text(json.dumps(thing("Node", "n3"), indent="\t") + "\n" + json.dumps(thing("Node", "n4")))
        stdin = io.StringIO("{apiVersion: v1, kind: Node, metadata: {name: n5}}")
        cluster = cluster_from_documents(read_files([str(yaml_file), str(json_file), "-"], stdin=stdin))

        assert [node.name for node in cluster.nodes] == ["n1", "n2", "n3", "n4", "n5"]

    def test_custom_resources_are_kept_unchanged_and_ignored_kinds_are_counted(self) -> None:
        custom = thing("Service", "s", "serving.knative.dev/v1", spec={"x": 1})
        cluster: ClusterInput = build_cluster_input(
            [custom, thing("ConfigMap", "c"), thing("Ingress", "i", "networking.k8s.io/v1")]
        )

        assert [(item["kind"], item["spec"], item["metadata"]["name"]) for item in cluster.custom] == [
            ("Service", {"x": 1}, "s")
        ]
        assert cluster.ignored == {"ConfigMap": 1, "Ingress": 1}
        assert cluster.objects == ()


BAD: dict[str, tuple[Any, str]] = {
    "not a mapping": (["x"], "the input, object 1: expected a Kubernetes object, found a list"),
    "no kind": ({"apiVersion": "v1"}, "the input, object 1: this is not a Kubernetes object: it has no kind"),
    "an unknown kind": (thing("Pdo"), "the input, object 1 (Pdo a): v1 has no kind 'Pdo'\n  hint: did you mean 'Pod'?"),
    "a kind in the wrong group": (
        thing("ReplicaSet"),
        "(ReplicaSet a): apiVersion 'v1' does not fit a ReplicaSet\n  hint: write apiVersion: apps/v1",
    ),
    "no name": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}},
        "the input, object 1 (Pod), metadata.name: the object has no name",
    ),
    "a quantity of a container": (
        pod(containers=[asking({"cpu": "1 core"})]),
        "the input, object 1 (Pod a), spec.containers[0].resources.requests.cpu: '1 core' is not a quantity",
    ),
    "a quantity of a node": (
        thing("Node", status={"allocatable": {"memory": "16gb"}}),
        "the input, object 1 (Node a), status.allocatable.memory: '16gb' is not a quantity\n  hint: write a number",
    ),
    "a quantity of a claim": (
        thing("PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "big"}}}),
        "spec.resources.requests.storage: 'big' is not a quantity",
    ),
    "a negative request": (
        pod(containers=[asking({"cpu": "-1"})]),
        "spec.containers[0].resources.requests.cpu: '-1' is negative",
    ),
    "a wrong type": (
        pod(priority="high"),
        "the input, object 1 (Pod a), spec.priority: expected an integer or null, found a string ('high')",
    ),
    "a number as a label": (
        thing("Node", metadata={"labels": {"zone": "a", "disks": 2}}),
        "the input, object 1 (Node a), metadata.labels.disks: "
        "expected a string, found an integer (2; put it in quotes)",
    ),
    "a selector's operator": (
        pod(
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "z",
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]},
                        }
                    ]
                }
            }
        ),
        "DuringExecution[0].labelSelector.matchExpressions: a: operator 'in' is unknown",
    ),
    "a node selector's operator": (
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "GT", "values": ["1"]}]}]
                    }
                }
            }
        ),
        "nodeSelectorTerms[0].matchExpressions[0].operator: 'GT' is unknown",
    ),
    "a taint's effect": (
        thing("Node", spec={"taints": [{"key": "k", "effect": "NoSchedul"}]}),
        "spec.taints[0].effect: 'NoSchedul' is unknown\n  hint: did you mean 'NoSchedule'?",
    ),
    "a skew of nothing": (
        pod(topologySpreadConstraints=[{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints[0].maxSkew: found 0",
    ),
    "a time": (
        thing("Pod", spec={}, status={"startTime": "yesterday"}),
        "status.startTime: 'yesterday' is not a time\n  hint: write it like 2026-01-31T12:00:00Z",
    ),
    "an unknown priority class": (
        pod(priorityClassName="hihg"),
        "the input, object 1 (Pod a), spec.priorityClassName: no PriorityClass is named 'hihg'",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_bad_objects(content: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        build_cluster_input([content])

    assert message in str(raised.value)


def test_the_same_object_twice() -> None:
    with pytest.raises(InputError, match=r"object 2: Pod 'default/a' is already defined in the input, object 1"):
        build_cluster_input([pod(), pod()])


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: the file does not exist"):
        cluster_from_documents(read_files(["nowhere.yaml"]))


def test_yaml_that_does_not_parse(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n\n")

    with pytest.raises(InputError, match=r"broken\.yaml, line \d, column \d"):
        cluster_from_documents(read_files([str(broken)]))
