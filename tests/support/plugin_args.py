"""Arguments of plugins, loaded as a part of a configuration."""

from typing import Any

import pytest
import yaml

from moorage.common.errors import ConfigErrors
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import load_config

SECOND = 1_000_000_000


LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def load(plugin: str, args: dict[str, Any] | None, gates: str = "") -> Any:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}],
    }
    config = load_config(yaml.safe_dump(document), gates=FeatureGates.parse(gates))
    return config.profiles[0].find_args(plugin)


def problems(plugin: str, args: dict[str, Any], gates: str = "") -> list[str]:
    """Return the messages, with paths relative to the arguments and without hints."""
    with pytest.raises(ConfigErrors) as refusal:
        load(plugin, args, gates)
    prefix = "profiles[0].pluginConfig[0].args."
    return [f"{error.where.removeprefix(prefix)}: {error.problem}" for error in refusal.value.errors]


def strategy(**fields: Any) -> dict[str, Any]:
    return {"scoringStrategy": fields}
