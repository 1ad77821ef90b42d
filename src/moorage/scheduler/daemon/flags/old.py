"""Flags that kube-scheduler had once, and what took their place."""

from typing import Final

_CONVERT: Final = "it has gone; `moorage config convert` writes what it said as a configuration for --config"
_LOGS: Final = "it has gone; logs go to stderr, redirect that"

_INSTEAD: Final = {
    "address": "it has gone; write --bind-address",
    "algorithm-provider": _CONVERT,
    "failure-domains": "it has gone; affinity terms have a topologyKey",
    "hard-pod-affinity-symmetric-weight": "it has gone; write hardPodAffinityWeight into InterPodAffinity's args",
    "lock-object-name": "it has gone; write --leader-elect-resource-name",
    "lock-object-namespace": "it has gone; write --leader-elect-resource-namespace",
    "policy-config-file": _CONVERT,
    "policy-configmap": _CONVERT,
    "policy-configmap-namespace": _CONVERT,
    "port": "it has gone: nothing is served without TLS; write --secure-port",
    "scheduler-name": "it has gone; write schedulerName into a profile of the file for --config",
    "use-legacy-policy-config": _CONVERT,
    **dict.fromkeys(
        (
            "add-dir-header",
            "alsologtostderr",
            "log-backtrace-at",
            "log-dir",
            "log-file",
            "log-file-max-size",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "stderrthreshold",
        ),
        _LOGS,
    ),
}


def instead_of(flag: str) -> str:
    """Say what took the place of a flag; nothing if there never was such a one."""
    return _INSTEAD.get(flag, "")
