"""Old configurations for tests of their conversion."""

import json
from typing import Any

from moorage.scheduler.config.conversion import Effect, convert_text
from moorage.scheduler.config.conversion.tables import OLD_WEIGHTS

GROUP = "kubescheduler.config.k8s.io"


def old(version: str, **fields: Any) -> str:
    return json.dumps({"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields})


def only(text: str) -> dict[str, Any]:
    (converted,) = convert_text(text, "f")
    return converted.data


def only_profile(text: str) -> dict[str, Any]:
    (profile,) = only(text)["profiles"]
    fields: dict[str, Any] = profile
    return fields


def args_of(profile: dict[str, Any], plugin: str) -> Any:
    return next((entry["args"] for entry in profile.get("pluginConfig", ()) if entry["name"] == plugin), None)


def lost(text: str) -> list[str]:
    (converted,) = convert_text(text, "f")
    return [note.where for note in converted.notes if note.effect is Effect.LOST]


def score(**sets: Any) -> dict[str, Any]:
    return {"score": {key: [{"name": name} for name in names] for key, names in sets.items()}}


def policy(**fields: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Policy", **fields})


WEIGHTED = [{"name": name, "weight": weight} for name, weight in OLD_WEIGHTS.items()]
"""The weights that old versions had by default."""
