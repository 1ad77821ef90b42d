"""Every flag: its name, type, default, group and purpose. Upstream's names, defaults and groups; our words."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.types import DEFAULT_BURST, DEFAULT_QPS, ClientConnection, LeaderElection
from moorage.scheduler.daemon.flags import kinds
from moorage.scheduler.daemon.flags.kinds import FlagKind

MISC: Final = "Misc"
SERVING: Final = "Secure serving"
AUTHENTICATION: Final = "Authentication"
AUTHORIZATION: Final = "Authorization"
DEPRECATED: Final = "Deprecated"
LEADER_ELECTION: Final = "Leader election"
FEATURES: Final = "Feature gate"
METRICS: Final = "Metrics"
LOGS: Final = "Logs"
OWN: Final = "Moorage"
GLOBAL: Final = "Global"

_NO_HTTP2: Final = "this server supports only HTTP/1.1"
_NO_SPLIT: Final = "logs are one stream without a buffer"
_NO_CURVES: Final = "OpenSSL chooses the key exchange"


class Flag(Struct, frozen=True):
    """One flag. ``moot`` is the reason why it changes nothing here: it is accepted, and that is logged."""

    name: str
    kind: FlagKind
    default: Any
    group: str
    help: str
    moot: str = ""
    short: str = ""


_ELECTION: Final = LeaderElection()

_ALL: Final = (
    Flag("config", kinds.TEXT, "", MISC, "Configuration file (KubeSchedulerConfiguration v1)."),
    Flag("master", kinds.TEXT, "", MISC, "Address of the API server; overrides the kubeconfig."),
    Flag("write-config-to", kinds.TEXT, "", MISC, "Write the completed configuration to this file and exit."),
    Flag("bind-address", kinds.ADDRESS, "0.0.0.0", SERVING, "Address to serve on; 0.0.0.0 and :: mean all addresses."),
    Flag("secure-port", kinds.INT, 10259, SERVING, "Port to serve HTTPS on; 0 disables serving."),
    Flag("cert-dir", kinds.TEXT, "", SERVING, "Folder of kube-scheduler.crt and .key; they are created if missing."),
    Flag("tls-cert-file", kinds.TEXT, "", SERVING, "Certificate to serve with, followed by its chain."),
    Flag("tls-private-key-file", kinds.TEXT, "", SERVING, "Private key of --tls-cert-file."),
    Flag("tls-cipher-suites", kinds.TEXTS, (), SERVING, "Allowed cipher suites, by their Go names."),
    Flag("tls-curve-preferences", kinds.INTEGERS, (), SERVING, "Allowed key exchanges, by number.", moot=_NO_CURVES),
    Flag("tls-min-version", kinds.TEXT, "", SERVING, "Minimum TLS version: VersionTLS12 or VersionTLS13."),
    Flag(
        "tls-sni-cert-key", kinds.CERTIFICATES, (), SERVING, "Certificate and key for server names: c.crt,c.key:name."
    ),
    Flag(
        "http2-max-streams-per-connection", kinds.INT, 0, SERVING, "Maximum HTTP/2 streams per client.", moot=_NO_HTTP2
    ),
    Flag("disable-http2-serving", kinds.BOOL, False, SERVING, "Do not serve HTTP/2.", moot=_NO_HTTP2),
    Flag("permit-port-sharing", kinds.BOOL, False, SERVING, "Let other processes share the port (SO_REUSEPORT)."),
    Flag("permit-address-sharing", kinds.BOOL, False, SERVING, "Reuse an address in TIME_WAIT (SO_REUSEADDR)."),
    Flag(
        "authentication-kubeconfig",
        kinds.TEXT,
        "",
        AUTHENTICATION,
        "Kubeconfig for TokenReviews; without it, all are anonymous.",
    ),
    Flag("authentication-skip-lookup", kinds.BOOL, False, AUTHENTICATION, "Do not look up client CAs in the cluster."),
    Flag(
        "authentication-token-webhook-cache-ttl",
        kinds.DURATION,
        Duration.of(seconds=10),
        AUTHENTICATION,
        "Time for which a TokenReview result is cached.",
    ),
    Flag(
        "authentication-tolerate-lookup-failure",
        kinds.BOOL,
        True,
        AUTHENTICATION,
        "Start even if the client CAs cannot be looked up; all requests are then anonymous.",
    ),
    Flag("client-ca-file", kinds.TEXT, "", AUTHENTICATION, "CA of client certificates that identify users."),
    Flag("requestheader-allowed-names", kinds.TEXTS, (), AUTHENTICATION, "Common names of trusted proxies."),
    Flag("requestheader-client-ca-file", kinds.TEXT, "", AUTHENTICATION, "CA of proxies that identify users."),
    Flag(
        "requestheader-extra-headers-prefix",
        kinds.TEXTS,
        ("x-remote-extra-",),
        AUTHENTICATION,
        "Prefixes of headers with extra user attributes.",
    ),
    Flag(
        "requestheader-group-headers",
        kinds.TEXTS,
        ("x-remote-group",),
        AUTHENTICATION,
        "Headers that contain the groups of the user.",
    ),
    Flag("requestheader-uid-headers", kinds.TEXTS, (), AUTHENTICATION, "Headers that contain the uid of the user."),
    Flag(
        "requestheader-username-headers",
        kinds.TEXTS,
        ("x-remote-user",),
        AUTHENTICATION,
        "Headers that contain the name of the user.",
    ),
    Flag(
        "authorization-always-allow-paths",
        kinds.TEXTS,
        ("/healthz", "/readyz", "/livez"),
        AUTHORIZATION,
        "Paths that need no authorization; a trailing * matches any suffix.",
    ),
    Flag("authorization-kubeconfig", kinds.TEXT, "", AUTHORIZATION, "Kubeconfig for SubjectAccessReviews."),
    Flag(
        "authorization-webhook-cache-authorized-ttl",
        kinds.DURATION,
        Duration.of(seconds=10),
        AUTHORIZATION,
        "Time for which an allowed request is cached.",
    ),
    Flag(
        "authorization-webhook-cache-unauthorized-ttl",
        kinds.DURATION,
        Duration.of(seconds=10),
        AUTHORIZATION,
        "Time for which a denied request is cached.",
    ),
    Flag("profiling", kinds.BOOL, True, DEPRECATED, "Serve /debug/pprof. Ignored with --config."),
    Flag(
        "contention-profiling",
        kinds.BOOL,
        True,
        DEPRECATED,
        "Enable block profiling. Ignored with --config.",
        moot="one loop without locks has no contention to profile",
    ),
    Flag("kubeconfig", kinds.TEXT, "", DEPRECATED, "Kubeconfig of the API server. Ignored with --config."),
    Flag(
        "kube-api-qps",
        kinds.FLOAT,
        DEFAULT_QPS,
        DEPRECATED,
        "Maximum requests per second, if set. Ignored with --config.",
    ),
    Flag("kube-api-burst", kinds.INT32, DEFAULT_BURST, DEPRECATED, "Burst of requests above --kube-api-qps."),
    Flag(
        "kube-api-content-type",
        kinds.TEXT,
        ClientConnection().content_type,
        DEPRECATED,
        "Content type of requests. Ignored with --config.",
        moot="requests are always JSON",
    ),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        kinds.DURATION,
        Duration.of(seconds=300),
        DEPRECATED,
        "Time after which an unschedulable pod is retried without an event.",
    ),
    Flag("leader-elect", kinds.BOOL, _ELECTION.leader_elect, LEADER_ELECTION, "Schedule only while holding the lease."),
    Flag(
        "leader-elect-lease-duration",
        kinds.DURATION,
        _ELECTION.lease_duration,
        LEADER_ELECTION,
        "Time after the last renewal until other replicas take the lease.",
    ),
    Flag(
        "leader-elect-renew-deadline",
        kinds.DURATION,
        _ELECTION.renew_deadline,
        LEADER_ELECTION,
        "Time in which the leader must renew; less than the lease duration.",
    ),
    Flag(
        "leader-elect-retry-period",
        kinds.DURATION,
        _ELECTION.retry_period,
        LEADER_ELECTION,
        "Time between attempts to acquire or renew the lease.",
    ),
    Flag(
        "leader-elect-resource-lock",
        kinds.TEXT,
        _ELECTION.resource_lock,
        LEADER_ELECTION,
        "Kind of the lock; only leases is supported.",
    ),
    Flag("leader-elect-resource-name", kinds.TEXT, _ELECTION.resource_name, LEADER_ELECTION, "Name of the lease."),
    Flag(
        "leader-elect-resource-namespace",
        kinds.TEXT,
        _ELECTION.resource_namespace,
        LEADER_ELECTION,
        "Namespace of the lease.",
    ),
    Flag("feature-gates", kinds.GATES, (), FEATURES, "Feature gates: A=true,B=false or kube:A=true; may be repeated."),
    Flag("emulated-version", kinds.TEXTS, (), FEATURES, "Release whose feature gate defaults apply: 1.34 to 1.37."),
    Flag(
        "min-compatibility-version",
        kinds.TEXTS,
        (),
        FEATURES,
        "Oldest release in the control plane: 1.34 to 1.37.",
    ),
    Flag(
        "allow-metric-labels", kinds.MAP, {}, METRICS, 'Allowed label values; others become "unexpected": metric,l=a,b.'
    ),
    Flag("allow-metric-labels-manifest", kinds.TEXT, "", METRICS, "File with an allowListMapping of the same form."),
    Flag("disabled-metrics", kinds.TEXTS, (), METRICS, "Full names of metrics to disable."),
    Flag(
        "show-hidden-metrics-for-version",
        kinds.TEXT,
        "",
        METRICS,
        "Show metrics hidden since this release; only 1.36 is accepted.",
    ),
    Flag("log-flush-frequency", kinds.DURATION, Duration.of(seconds=5), LOGS, "Time between flushes.", moot=_NO_SPLIT),
    Flag("log-json-info-buffer-size", kinds.BYTES, 0, LOGS, "Buffer of JSON logs.", moot=_NO_SPLIT),
    Flag("log-json-split-stream", kinds.BOOL, False, LOGS, "Errors to stderr, the rest to stdout.", moot=_NO_SPLIT),
    Flag("log-text-info-buffer-size", kinds.BYTES, 0, LOGS, "Buffer of text logs.", moot=_NO_SPLIT),
    Flag("log-text-split-stream", kinds.BOOL, False, LOGS, "Errors to stderr, the rest to stdout.", moot=_NO_SPLIT),
    Flag("logging-format", kinds.TEXT, "text", LOGS, "text or json."),
    Flag("v", kinds.LEVEL, 0, LOGS, "Log verbosity; 2 logs each decision.", short="v"),
    Flag("vmodule", kinds.MODULE_LEVELS, {}, LOGS, "Verbosity of single modules: scheduling_queue=5,bind*=4."),
    Flag("plugin", kinds.PATHS, (), OWN, "Third-party plugin as module:Class; may be repeated."),
    Flag(
        "cross-check-percent",
        kinds.FLOAT,
        0.0,
        OWN,
        "Percentage of cycles in which the one-node and columnar forms of plugins are compared.",
    ),
    Flag(
        "explain-events",
        kinds.BOOL,
        False,
        OWN,
        "Record a second event for unschedulable pods, with the first suggested change, once per minute.",
    ),
    Flag("decision-log", kinds.TEXT, "", OWN, "Write every decision to this file, one line of JSON each."),
    Flag("decision-log-max-size", kinds.BYTES, 100 << 20, OWN, "Size at which --decision-log is rotated."),
    Flag("decision-log-max-files", kinds.INT, 5, OWN, "Number of rotated files of --decision-log to keep."),
    Flag("shadow", kinds.TEXT, "", OWN, "Configuration to compare with the active one; it never writes."),
    Flag("shadow-percent", kinds.FLOAT, 100.0, OWN, "Percentage of the pods to compare with --shadow."),
    Flag("shadow-plugin", kinds.PATHS, (), OWN, "Plugin of --shadow as module:Class (default: those of --plugin)."),
    Flag("shadow-log", kinds.TEXT, "", OWN, "Write each comparison with --shadow to this file, one line of JSON each."),
    Flag("shadow-max-memory", kinds.BYTES, 4 << 30, OWN, "Memory limit of --shadow; it is disabled above the limit."),
    Flag("tracing-endpoint", kinds.TEXT, "", OWN, "OTLP/HTTP collector for traces of attempts, e.g. http://host:4318."),
    Flag("tracing-sampling-rate-per-million", kinds.INT32, 10_000, OWN, "Number of traced attempts per million."),
    Flag(
        "reload",
        kinds.BOOL,
        True,
        OWN,
        "Apply changes to the --config and --plugin files while running; SIGHUP rereads them.",
    ),
    Flag("ui", kinds.BOOL, False, OWN, "Serve a web page about the cluster under /ui/."),
    Flag(
        "stuck-timeout",
        kinds.DURATION,
        Duration.of(seconds=60),
        OWN,
        "Time a plugin may block scheduling before /livez fails and the lease is released; 0 means no limit.",
    ),
    Flag("help", kinds.BOOL, False, GLOBAL, "Print this help and exit.", short="h"),
    Flag("version", kinds.VERSION, "false", GLOBAL, "Print the version and exit; =raw prints all details."),
)

FLAGS: Final[Mapping[str, Flag]] = MappingProxyType({flag.name: flag for flag in _ALL})
SHORT: Final[Mapping[str, Flag]] = MappingProxyType({flag.short: flag for flag in _ALL if flag.short})
GROUPS: Final = tuple(dict.fromkeys(flag.group for flag in _ALL))
