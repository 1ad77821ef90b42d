"""The table of flags against kube-scheduler's own."""

import pytest

from moorage.scheduler.daemon.flags.table import FLAGS, GROUPS, OWN, format_value

#: Name, type and default as kube-scheduler 1.37.1 prints them in its help.
UPSTREAM = """
config string
master string
write-config-to string
bind-address ip 0.0.0.0
cert-dir string
disable-http2-serving bool false
http2-max-streams-per-connection int 0
permit-address-sharing bool false
permit-port-sharing bool false
secure-port int 10259
tls-cert-file string
tls-cipher-suites strings
tls-curve-preferences int32Slice
tls-min-version string
tls-private-key-file string
tls-sni-cert-key namedCertKey
authentication-kubeconfig string
authentication-skip-lookup bool false
authentication-token-webhook-cache-ttl duration 10s
authentication-tolerate-lookup-failure bool true
client-ca-file string
requestheader-allowed-names strings
requestheader-client-ca-file string
requestheader-extra-headers-prefix strings x-remote-extra-
requestheader-group-headers strings x-remote-group
requestheader-uid-headers strings
requestheader-username-headers strings x-remote-user
authorization-always-allow-paths strings /healthz,/readyz,/livez
authorization-kubeconfig string
authorization-webhook-cache-authorized-ttl duration 10s
authorization-webhook-cache-unauthorized-ttl duration 10s
contention-profiling bool true
kube-api-burst int32 100
kube-api-content-type string application/vnd.kubernetes.protobuf
kube-api-qps float32 50
kubeconfig string
pod-max-in-unschedulable-pods-duration duration 5m0s
profiling bool true
leader-elect bool true
leader-elect-lease-duration duration 15s
leader-elect-renew-deadline duration 10s
leader-elect-resource-lock string leases
leader-elect-resource-name string kube-scheduler
leader-elect-resource-namespace string kube-system
leader-elect-retry-period duration 2s
emulated-version strings
feature-gates gates
min-compatibility-version strings
allow-metric-labels stringToString
allow-metric-labels-manifest string
disabled-metrics strings
show-hidden-metrics-for-version string
log-flush-frequency duration 5s
log-json-info-buffer-size quantity 0
log-json-split-stream bool false
log-text-info-buffer-size quantity 0
log-text-split-stream bool false
logging-format string text
v Level 0
vmodule pattern=N,...
help bool false
version version false
"""


@pytest.mark.parametrize("line", UPSTREAM.strip().splitlines(), ids=lambda line: line.split()[0])
def test_every_upstream_flag_has_its_type_and_default(line: str) -> None:
    name, kind, *default = line.split()
    flag = FLAGS[name]
    assert flag.kind.name == kind
    assert format_value(flag.default) == " ".join(default)


def test_flags_unknown_to_upstream_are_marked() -> None:
    upstream = {line.split()[0] for line in UPSTREAM.strip().splitlines()}
    assert {flag.name for flag in GROUPS[OWN]} == FLAGS.keys() - upstream


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_has_a_description(name: str) -> None:
    assert FLAGS[name].help.endswith((".", ":")) or FLAGS[name].help[-1].isalnum()
    assert len(FLAGS[name].help) > 10
