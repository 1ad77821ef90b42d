"""Workloads, budgets and services: each invalid field is reported with its path."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.api import Data

from moorage.kube.admission.checks import workload_specs as checks

CONTAINER = {"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
POD = {"containers": [CONTAINER], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
WORKLOAD: dict[str, Any] = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
ROLLING = {"type": "RollingUpdate"}
JOB = {"template": {"spec": POD | {"restartPolicy": "Never"}}}
CRON = {"schedule": "0 4 * * *", "jobTemplate": {"spec": JOB}}
MISMATCH = "`selector` does not match template `labels`"
Check = Callable[[dict[str, Any]], Any]
SPECS: dict[str, tuple[Check, dict[str, Any], list[str]]] = {
    "a valid workload": (checks.workload, WORKLOAD, []),
    "a negative number of replicas": (
        checks.workload,
        WORKLOAD | {"replicas": -1},
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "no selector": (
        checks.workload,
        {"template": TEMPLATE},
        [
            "spec.selector: Required value",
            f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {MISMATCH}',
        ],
    ),
    "an empty selector": (
        checks.workload,
        WORKLOAD | {"selector": {}},
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    "a selector of other pods": (
        checks.workload,
        WORKLOAD | {"selector": {"matchLabels": {"app": "b"}}},
        [f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {MISMATCH}'],
    ),
    "pods that end": (
        checks.workload,
        WORKLOAD | {"template": TEMPLATE | {"spec": POD | {"restartPolicy": "Never"}}},
        ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
    ),
    "a valid deployment": (checks.deployment, WORKLOAD | {"strategy": ROLLING}, []),
    "an unknown strategy": (
        checks.deployment,
        WORKLOAD | {"strategy": {"type": "Slow"}},
        [
            'spec.strategy: Unsupported value: {"Type":"Slow","RollingUpdate":null}: supported values: "Recreate", '
            '"RollingUpdate"'
        ],
    ),
    "a rolling update of recreated pods": (
        checks.deployment,
        WORKLOAD | {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    "a rolling update that cannot start": (
        checks.deployment,
        WORKLOAD | {"strategy": ROLLING | {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}},
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    ),
    "more than all pods of a daemon set": (
        checks.daemon_set,
        WORKLOAD | {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
        [
            'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        ],
    ),
    "a stateful set that cannot update": (
        checks.stateful_set,
        WORKLOAD | {"updateStrategy": {"rollingUpdate": {"partition": -1, "maxUnavailable": "0%"}}},
        [
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "0%": cannot be 0',
        ],
    ),
    "a replication controller of other pods": (
        checks.replication_controller,
        {"selector": {"app": "b"}, "template": TEMPLATE},
        [f'spec.template.metadata.labels: Invalid value: {{"app":"a"}}: {MISMATCH}'],
    ),
    "an indexed job without completions": (
        lambda data: checks.job_spec(data["spec"], "spec"),
        JOB | {"completionMode": "Indexed"},
        ["spec.completions: Required value: when completion mode is Indexed"],
    ),
    "a job with pods that never end": (
        lambda data: checks.job_spec(data["spec"], "spec"),
        {"template": {"spec": POD}},
        ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    "a valid cron job": (checks.cron_job, CRON, []),
    "no schedule": (checks.cron_job, CRON | {"schedule": ""}, ["spec.schedule: Required value"]),
    "a time zone in the schedule": (
        checks.cron_job,
        CRON | {"schedule": "TZ=UTC 0 4 * * *"},
        [
            'spec.schedule: Invalid value: "TZ=UTC 0 4 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone '
            "field instead"
        ],
    ),
    "a schedule of four fields": (
        checks.cron_job,
        CRON | {"schedule": "0 4 * *"},
        ['spec.schedule: Invalid value: "0 4 * *": expected exactly 5 fields, found 4: [0 4 * *]'],
    ),
    "an hour that does not exist": (
        checks.cron_job,
        CRON | {"schedule": "0 24 * * *"},
        ["spec.schedule: Invalid value: \"0 24 * * *\": '24' is not a schedule"],
    ),
    "an unknown time zone": (
        checks.cron_job,
        CRON | {"timeZone": "Mars"},
        ['spec.timeZone: Invalid value: "Mars": unknown time zone Mars'],
    ),
    "an unknown concurrency policy": (
        checks.cron_job,
        CRON | {"concurrencyPolicy": "Maybe"},
        [
            'spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"',
        ],
    ),
    "a budget with two limits": (
        checks.budget,
        {"minAvailable": 1, "maxUnavailable": "a"},
        [
            'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"a",'
            '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
            'spec.maxUnavailable: Invalid value: "a": a valid percent string must be a numeric string followed by '
            "an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ],
    ),
    "a daemon set that adds and removes pods": (
        checks.daemon_set,
        WORKLOAD | {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}}},
        [
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: "
            "may not be set when maxUnavailable is non-zero"
        ],
    ),
    "a deadline that is shorter than the time until a pod is available": (
        checks.deployment,
        WORKLOAD | {"strategy": ROLLING, "minReadySeconds": 5, "progressDeadlineSeconds": 5},
        ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
    ),
    "a service without ports": (checks.service, {}, ["spec.ports: Required value"]),
    "a headless service without ports": (checks.service, {"clusterIP": "None"}, []),
    "a port above the range": (
        checks.service,
        {"ports": [{"port": 65536, "targetPort": "http"}]},
        ["spec.ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive"],
    ),
}


@pytest.mark.parametrize(("check", "spec", "want"), SPECS.values(), ids=SPECS)
def test_problems_of_a_spec(check: Check, spec: dict[str, Any], want: list[str]) -> None:
    assert [f"{error.field}: {error.message}" for error in check({"spec": spec})] == want


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DATABASE = CONTAINER | {"name": "db"}


def database(mount: str, claim: Data, **pod: object) -> Data:
    container = {**DATABASE, "volumeMounts": [{"name": mount, "mountPath": "/data"}]}
    spec = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "containers": [container], **pod}
    return {
        "metadata": {"name": "db"},
        "spec": {
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def fields(data: Data) -> list[str]:
    return [error.field for error in checks.stateful_set(data)]


def test_containers_mount_claim_templates() -> None:
    assert fields(database("data", CLAIM)) == []


def test_a_claim_template_replaces_the_volume_of_its_name() -> None:
    assert fields(database("data", CLAIM, volumes=[{"name": "data", "emptyDir": {}}])) == []


def test_mounts_without_volume_or_claim_template_are_rejected() -> None:
    assert fields(database("logs", CLAIM)) == ["spec.template.spec.containers[0].volumeMounts[0].name"]


def test_claim_templates_are_validated() -> None:
    path = "spec.volumeClaimTemplates[0].spec"
    assert fields(database("data", {})) == [f"{path}.accessModes", f"{path}.resources[storage]"]
