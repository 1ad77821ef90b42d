"""kubectl on an embedded cluster: common commands with their output."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from moorage.cluster.apiserver.server import ApiServer
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.common.clock import SystemClock
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from tests.integration.test_workloads import STORAGE, Data, workload
from tests.support.control_plane import binaries

PATIENCE: Final = 90.0
EDITOR: Final = """#!/bin/sh
sed -i 's/a: h/a: edited/' "$1"
"""
Step = tuple[str, Any, str]
"""A command, its standard input and its output: read-only commands are repeated until the output matches."""


def settings(**data: str) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


def labeled(name: str) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"tier": "front"}}}


def budget(**spec: Any) -> Data:
    full = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": full}


CLAIM: Final[Data] = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    },
}
DATABASE: Final = workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[CLAIM])
STORIES: Final[dict[str, tuple[Step, ...]]] = {
    "a deployment from its creation to its deletion": (
        ("create deployment web --image=web:1 --replicas=3", None, "deployment.apps/web created"),
        ("rollout status deployment web --timeout=60s", None, "successfully rolled out"),
        ("get deployment web", None, "3/3"),
        ("get pods -l app=web -o wide", None, "node-"),
        ("get pods -A --field-selector=status.phase=Running -o name", None, "pod/web-"),
        ("get pods --chunk-size=1 -o custom-columns=NODE:.spec.nodeName --no-headers", None, "node-"),
        ("describe deployment web", None, "NewReplicaSetAvailable"),
        ("set image deployment/web web=web:2", None, "image updated"),
        ("annotate deployment web kubernetes.io/change-cause=newer", None, "annotated"),
        ("rollout status deployment web --timeout=60s", None, "successfully rolled out"),
        ("rollout history deployment web", None, "newer"),
        ("rollout undo deployment web", None, "rolled back"),
        ("rollout status deployment web --timeout=60s", None, "successfully rolled out"),
        ("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", None, "web:1"),
        ("rollout restart deployment web", None, "restarted"),
        ("rollout status deployment web --timeout=60s", None, "successfully rolled out"),
        ("rollout pause deployment web", None, "paused"),
        ("rollout resume deployment web", None, "resumed"),
        ("scale deployment web --replicas=1", None, "scaled"),
        ("wait --for=jsonpath={.status.availableReplicas}=1 deployment/web --timeout=60s", None, "condition met"),
        ("expose deployment web --port=80", None, "service/web exposed"),
        ("get service web", None, "10.96."),
        ("describe service web", None, "app=web"),
        ("autoscale deployment web --max=5 --cpu=50%", None, "autoscaled"),
        ("get hpa", None, "Deployment/web"),
        ("get events --field-selector reason=Scheduled", None, "Successfully assigned"),
        ("delete deployment,service,hpa web", None, "deleted"),
        ("get replicasets,pods -l app=web", None, "No resources found"),
    ),
    "sets that store their templates": (
        ("apply -f -", STORAGE, "storageclass.storage.k8s.io/fast created"),
        ("apply -f -", DATABASE, "statefulset.apps/db created"),
        ("rollout status statefulset db --timeout=60s", None, "complete"),
        ("get pvc", None, "Bound"),
        ("describe pvc data-db-0", None, "Used By:       db-0"),
        ("get pv", None, "default/data-db-"),
        ("set image statefulset/db c=db:2", None, "image updated"),
        ("rollout status statefulset db --timeout=60s", None, "complete"),
        ("rollout history statefulset db", None, "2         <none>"),
        ("rollout undo statefulset db", None, "rolled back"),
        ("rollout status statefulset db --timeout=60s", None, "complete"),
        ("get pod db-0 -o jsonpath={.spec.containers[0].image}", None, "web:1"),
        ("apply -f -", workload("DaemonSet", "log"), "daemonset.apps/log created"),
        ("rollout status daemonset log --timeout=60s", None, "successfully rolled out"),
        ("rollout restart daemonset log", None, "restarted"),
        ("rollout status daemonset log --timeout=60s", None, "successfully rolled out"),
        ("rollout history daemonset log", None, "2         <none>"),
        ("rollout undo daemonset log", None, "rolled back"),
        ("get controllerrevisions", None, "daemonset.apps/log"),
        ("delete statefulset db --cascade=orphan", None, "deleted"),
        ("get pods -l app=db -o name", None, "pod/db-0"),
        ("apply -f -", DATABASE, "statefulset.apps/db created"),
        ("get pod db-0 -o jsonpath={.metadata.ownerReferences[0].name}", None, "db"),
        ("delete statefulset db --cascade=foreground", None, "deleted"),
        ("delete daemonset log", None, "deleted"),
        ("get pods", None, "No resources found"),
        ("delete pvc --all", None, "deleted"),
        ("get pv", None, "No resources found"),
    ),
    "jobs": (
        ("create job sum --image=sum", None, "job.batch/sum created"),
        ("wait --for=condition=Complete job/sum --timeout=60s", None, "condition met"),
        ("get job sum", None, "1/1"),
        ("describe job sum", None, "1 Succeeded / 0 Failed"),
        ("create cronjob tick --image=tick --schedule=@yearly", None, "cronjob.batch/tick created"),
        ("get cronjob tick", None, "@yearly"),
        ("create job now --from=cronjob/tick", None, "job.batch/now created"),
        ("wait --for=condition=Complete job/now --timeout=60s", None, "condition met"),
        ("delete cronjob tick", None, "deleted"),
        ("delete jobs --all", None, "deleted"),
        ("get pods", None, "No resources found"),
    ),
    "nodes": (
        ("create deployment web --image=web --replicas=2", None, "created"),
        ("apply -f -", budget(minAvailable=1), "poddisruptionbudget.policy/web created"),
        ("get pdb web -o jsonpath={.status.disruptionsAllowed}", None, "1"),
        ("label node node-1 disk=ssd", None, "labeled"),
        ("get nodes -l disk=ssd -o name", None, "node/node-1"),
        ("taint node node-1 spot=true:NoSchedule", None, "tainted"),
        ("taint node node-1 spot-", None, "untainted"),
        ("cordon node-1", None, "cordoned"),
        ("get node node-1", None, "SchedulingDisabled"),
        ("drain node-1 node-2 node-3 --timeout=5s || true", None, "Cannot evict pod"),
        ("uncordon node-1 node-2 node-3", None, "uncordoned"),
        ("drain node-1 --timeout=60s", None, "drained"),
        ("describe node node-1", None, "Non-terminated Pods:          (0 in total)"),
        ("uncordon node-1", None, "uncordoned"),
        ("delete pdb,deployment web", None, "deleted"),
    ),
    "objects of any kind": (
        ("version", None, "Server Version: v1.37.1"),
        ("api-resources", None, "cronjobs"),
        ("api-versions", None, "apps/v1"),
        ("auth can-i create pods", None, "yes"),
        ("explain pod.spec.tolerations", None, "tolerationSeconds"),
        ("create namespace shop", None, "namespace/shop created"),
        ("get serviceaccount default -n shop -o name", None, "serviceaccount/default"),
        ("create configmap settings --from-literal=a=b -n shop", None, "created"),
        ("delete namespace shop", None, "deleted"),
        ("apply -f -", settings(a="b"), "created"),
        ("diff -f - || true", settings(a="c"), "+  a: c"),
        ("apply -f -", settings(a="c"), "configured"),
        ("apply --server-side --force-conflicts -f -", settings(a="d"), "serverside-applied"),
        ("replace -f -", settings(a="e"), "replaced"),
        ('patch configmap settings --type=merge -p {"data":{"a":"f"}}', None, "patched"),
        ('patch configmap settings --type=strategic -p {"data":{"a":"g"}}', None, "patched"),
        ('patch configmap settings --type=json -p [{"op":"replace","path":"/data/a","value":"h"}]', None, "patched"),
        ("get configmap settings -o jsonpath={.data.a}", None, "h"),
        ("edit configmap settings", None, "edited"),
        ("get configmap settings -o yaml", None, "a: edited"),
        ("get configmap settings -o json", None, '"a": "edited"'),
        ("label configmap settings tier=front", None, "labeled"),
        ("apply -f -", labeled("settings"), "configured"),
        ("apply --prune -l tier=front -f -", labeled("other"), "configmap/settings pruned"),
        ("delete configmap -l tier=front", None, "deleted"),
        ("run web --image=web", None, "pod/web created"),
        ("wait --for=condition=Ready pod/web --timeout=60s", None, "condition met"),
        ("describe pod web", None, "Successfully assigned"),
        ("get pod web -o jsonpath={.status.qosClass}", None, "BestEffort"),
        ("delete pod web --grace-period=0 --force", None, "force deleted"),
    ),
}
TYPO: Final[Data] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"contaners": []}}
REFUSED: Final[tuple[Step, ...]] = (
    ("logs web", None, 'pod "web" has no logs'),
    ("exec web -- ls", None, 'pod "web" has no command to run'),
    ("cp /etc/hosts web:/tmp/hosts", None, 'pod "web" has no command to run'),
    ("top nodes", None, "Metrics API not available"),
    ("apply -f -", TYPO, 'unknown field "spec.contaners"'),
    ("get pods nobody", None, 'pods "nobody" not found'),
    ("get gadgets", None, "the server doesn't have a resource type"),
    ('run web2 --image=web --overrides={"spec":{"priorityClassName":"x"}}', None, "no PriorityClass with name x"),
    ("scale deployment nobody --replicas=1", None, 'deployments.apps "nobody" not found'),
    ("delete namespace default", None, "this namespace may not be deleted"),
)


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Path]:
    async with ApiServer(plain=True) as server:
        file = directory / "kubeconfig"
        file.write_text(yaml.safe_dump(server.kubeconfig()))
        (directory / "editor").write_text(EDITOR)
        (directory / "editor").chmod(0o700)
        connection = Connection(server.plain_url, "a test", credentials=FixedCredentials(f"Bearer {server.token}"))
        async with EmbeddedCluster(
            lambda: ApiClient(connection), SystemClock(), ClusterOptions(nodes=3, policy=load_policy(collect_plugins()))
        ):
            yield file


async def kubectl(config: Path, command: str, body: Any = None) -> tuple[int, str]:
    """Run a command, ``|| true`` if it may fail; return its exit code and output."""
    process = await asyncio.create_subprocess_exec(
        binaries() / "kubectl",
        f"--kubeconfig={config}",
        *command.removesuffix(" || true").split(" "),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "KUBE_EDITOR": str(config.parent / "editor")},
    )
    output, _ = await process.communicate(msgspec.json.encode(body) if body is not None else None)
    code = 0 if command.endswith("|| true") else process.returncode or 0
    return code, output.decode()


async def step(config: Path, command: str, body: Any, want: str) -> None:
    reads = command.split(" ", maxsplit=1)[0] in ("get", "describe")
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        code, output = await kubectl(config, command, body)
        if code == 0 and want in output:
            return
        if not reads or asyncio.get_running_loop().time() > deadline:
            pytest.fail(f"kubectl {command}: {want!r} is not in\n{output}")
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("steps", STORIES.values(), ids=STORIES)
def test_kubectl_scenario(steps: tuple[Step, ...], tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as config:
            for command, body, want in steps:
                await step(config, command, body, want)

    asyncio.run(story())


def test_failures_are_reported_in_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as config:
            await step(config, "run web --image=web", None, "created")
            for command, body, want in REFUSED:
                code, output = await kubectl(config, command, body)
                assert code != 0, command
                assert want in output, f"kubectl {command}: {output}"

    asyncio.run(story())
