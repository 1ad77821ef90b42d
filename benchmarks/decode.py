"""`make bench-decode`: measure the decoding of a listed page of pods."""

import gc
import json
import statistics
import sys
import time
from typing import Any

import msgspec

from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import KubeStruct

PODS = 5_000
ROUNDS = 9


class PodList(KubeStruct, frozen=True):
    """A page of pods."""

    items: tuple[Pod, ...] = ()


def listed_pod(number: int) -> dict[str, Any]:
    """Make a pod as an API server lists it, with all fields of a Deployment's pod."""
    name = f"web-6d4cf56db6-{number:05d}"
    return {
        "metadata": {
            "name": name,
            "generateName": "web-6d4cf56db6-",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
            ],
        },
        "spec": {
            "volumes": [
                {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/web:1.2.3",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}},
                    "volumeMounts": [{"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run"}],
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{state}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for state in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def main() -> None:
    """Print the median cost of a pod next to that of plain JSON in the same run."""
    body = json.dumps({"items": [listed_pod(number) for number in range(PODS)]}).encode()
    decoder = msgspec.json.Decoder(PodList)
    gc.collect()
    gc.freeze()
    typed, plain = [], []
    for _ in range(ROUNDS):
        typed.append(_microseconds(lambda: decoder.decode(body)))
        plain.append(_microseconds(lambda: json.loads(body)))
    typed_cost, plain_cost = statistics.median(typed), statistics.median(plain)
    size = len(body) // PODS
    sys.stdout.write(
        f"{typed_cost:.1f} µs a pod of {size} bytes; "
        f"json.loads takes {plain_cost:.1f} µs ({plain_cost / typed_cost:.1f} times)\n"
    )


def _microseconds(action: Any) -> float:
    start = time.process_time()
    action()
    return (time.process_time() - start) / PODS * 1e6


if __name__ == "__main__":
    main()
