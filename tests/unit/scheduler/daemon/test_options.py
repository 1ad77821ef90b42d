"""From a command line to options: precedence, and rejected values."""

from pathlib import Path

import pytest
from tests.support.options import load_options

from moorage.common.errors import InputError
from moorage.scheduler.config.durations import Duration

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 30s, resourceName: mine}
clientConnection: {kubeconfig: /from/file, qps: 5}
enableProfiling: false
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return str(path)


def test_with_a_file_only_leader_election_flags_count(file: str) -> None:
    options = load_options(
        [
            f"--config={file}",
            "--kubeconfig=/from/flag",
            "--kube-api-qps=9",
            "--profiling",
            "--leader-elect-resource-name=x",
        ]
    )
    config = options.config
    assert (config.leader_election.resource_name, config.leader_election.lease_duration) == (
        "x",
        Duration.of(seconds=30),
    )
    assert (config.client_connection.kubeconfig, config.client_connection.qps) == ("/from/file", 5)
    assert not config.enable_profiling


def test_without_a_file_deprecated_flags_count_if_given() -> None:
    options = load_options(["--kubeconfig=/from/flag", "--kube-api-qps=9", "--profiling=false"])
    connection = options.config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("/from/flag", 9, None)
    assert (options.config.enable_profiling, options.config.enable_contention_profiling) == (False, False)


def test_there_is_no_client_side_limit_by_default() -> None:
    connection = load_options([]).config.client_connection
    assert (connection.qps, connection.burst) == (None, None)


def test_kubeadm_arguments_work_unchanged() -> None:
    options = load_options(
        [
            "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--bind-address=127.0.0.1",
            "--kubeconfig=/etc/kubernetes/scheduler.conf",
            "--leader-elect=true",
        ]
    )
    assert options.authentication.kubeconfig == options.authorization.kubeconfig == "/etc/kubernetes/scheduler.conf"
    assert (options.serving.address, options.serving.port) == ("127.0.0.1", 10259)


def test_third_party_plugin_is_recognized() -> None:
    options = load_options(["--plugin=moorage.scheduler.plugins.node_name:NodeName"])
    assert "NodeName" in options.registry


def test_allowed_labels_of_flag_and_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "allow.yaml"
    manifest.write_text('allowListMapping: {"a,l": "1,2", "b,l": "3"}')
    options = load_options([f"--allow-metric-labels-manifest={manifest}", "--allow-metric-labels=a,l=9"])
    assert options.metrics.allowed_labels == {"a,l": {"9"}, "b,l": {"3"}}


REFUSED = {
    "an invalid port": (["--secure-port=99999"], "must be between 0 and 65535"),
    "an invalid TLS version": (["--tls-min-version=VersionTLS99"], 'unknown tls version "VersionTLS99"'),
    "a certificate without its key": (["--tls-cert-file=a.crt"], "must be set together"),
    "an invalid log format": (["--logging-format=xml"], "write text or json"),
    "module levels in JSON": (["--logging-format=json", "--vmodule=a=1"], "Only supported for text log format"),
    "hidden metrics of an old release": (["--show-hidden-metrics-for-version=1.20"], "write 1.36"),
    "a missing manifest": (["--allow-metric-labels-manifest=/nowhere"], "does not exist"),
    "a percentage above all": (["--cross-check-percent=101"], "not a percentage"),
    "a missing configuration": (
        ["--config=/nowhere"],
        "--config /nowhere: the file does not exist\n  hint: check the path",
    ),
    "a plugin that is not there": (["--plugin=nowhere:X"], "cannot be imported"),
    "a lease shorter than its renewal": (["--leader-elect-lease-duration=5s"], "must be greater than `RenewDeadline`"),
    "an unknown gate": (["--feature-gates=Nope=true"], "unrecognized feature gate: Nope"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_rejections(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        load_options(arguments)
    assert message in str(raised.value)
