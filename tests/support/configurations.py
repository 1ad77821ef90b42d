"""Configurations as mappings, and the problems of loading them."""

from typing import Any

import pytest
import yaml

from moorage.common.errors import ConfigErrors
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import load_config

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


REMOVED = 'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'


LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def problems(fields: dict[str, Any], gates: str = "") -> list[str]:
    """Return the messages without their hints."""
    text = yaml.safe_dump({**HEADER, **fields})
    with pytest.raises(ConfigErrors) as refusal:
        load_config(text, gates=FeatureGates.parse(gates))
    return [f"{error.where}: {error.problem}" for error in refusal.value.errors]


def profile(**fields: Any) -> dict[str, Any]:
    return {"schedulerName": "a", **fields}


def enabling(point: str, *names: str) -> dict[str, Any]:
    return {point: {"enabled": [{"name": name} for name in names]}}
