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
OWN: Final = "Moorage's own"
GLOBAL: Final = "Global"

_NO_HTTP2: Final = "this server speaks HTTP/1.1 only"
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
    Flag("master", kinds.TEXT, "", MISC, "Address of the API server; wins over the one in the kubeconfig."),
    Flag("write-config-to", kinds.TEXT, "", MISC, "Write the completed configuration to this file and exit."),
    Flag("bind-address", kinds.ADDRESS, "0.0.0.0", SERVING, "Address to serve on; 0.0.0.0 and :: are all of them."),
    Flag("secure-port", kinds.INT, 10259, SERVING, "Port to serve HTTPS on; 0 for no serving at all."),
    Flag("cert-dir", kinds.TEXT, "", SERVING, "Folder of kube-scheduler.crt and .key, written there if missing."),
    Flag("tls-cert-file", kinds.TEXT, "", SERVING, "Certificate to serve with, followed by its chain."),
    Flag("tls-private-key-file", kinds.TEXT, "", SERVING, "Private key of --tls-cert-file."),
    Flag("tls-cipher-suites", kinds.TEXTS, (), SERVING, "Cipher suites allowed, by their Go names."),
    Flag("tls-curve-preferences", kinds.INTEGERS, (), SERVING, "Key exchanges allowed, by number.", moot=_NO_CURVES),
    Flag("tls-min-version", kinds.TEXT, "", SERVING, "Lowest TLS version: VersionTLS12 or VersionTLS13."),
    Flag("tls-sni-cert-key", kinds.CERTIFICATES, (), SERVING, "Certificate and key for some names: c.crt,c.key:name."),
    Flag("http2-max-streams-per-connection", kinds.INT, 0, SERVING, "Most HTTP/2 streams a client.", moot=_NO_HTTP2),
    Flag("disable-http2-serving", kinds.BOOL, False, SERVING, "Do not serve HTTP/2.", moot=_NO_HTTP2),
    Flag("permit-port-sharing", kinds.BOOL, False, SERVING, "Let others listen on the port too (SO_REUSEPORT)."),
    Flag("permit-address-sharing", kinds.BOOL, False, SERVING, "Reuse an address in TIME_WAIT (SO_REUSEADDR)."),
    Flag("authentication-kubeconfig", kinds.TEXT, "", AUTHENTICATION, "Kubeconfig for TokenReviews; none: anonymous."),
    Flag("authentication-skip-lookup", kinds.BOOL, False, AUTHENTICATION, "Do not look up client CAs in the cluster."),
    Flag(
        "authentication-token-webhook-cache-ttl",
        kinds.DURATION,
        Duration.of(seconds=10),
        AUTHENTICATION,
        "How long the answer to a TokenReview is remembered.",
    ),
    Flag(
        "authentication-tolerate-lookup-failure",
        kinds.BOOL,
        True,
        AUTHENTICATION,
        "Start even if the client CAs cannot be looked up; everybody is anonymous then.",
    ),
    Flag("client-ca-file", kinds.TEXT, "", AUTHENTICATION, "CA whose client certificates name their users."),
    Flag("requestheader-allowed-names", kinds.TEXTS, (), AUTHENTICATION, "Common names of proxies that are believed."),
    Flag("requestheader-client-ca-file", kinds.TEXT, "", AUTHENTICATION, "CA of the proxies that name users."),
    Flag(
        "requestheader-extra-headers-prefix",
        kinds.TEXTS,
        ("x-remote-extra-",),
        AUTHENTICATION,
        "Prefixes of headers with extra facts about the user.",
    ),
    Flag(
        "requestheader-group-headers",
        kinds.TEXTS,
        ("x-remote-group",),
        AUTHENTICATION,
        "Headers in which a proxy names groups.",
    ),
    Flag(
        "requestheader-uid-headers", kinds.TEXTS, (), AUTHENTICATION, "Headers in which a proxy gives the user's uid."
    ),
    Flag(
        "requestheader-username-headers",
        kinds.TEXTS,
        ("x-remote-user",),
        AUTHENTICATION,
        "Headers in which a proxy names the user.",
    ),
    Flag(
        "authorization-always-allow-paths",
        kinds.TEXTS,
        ("/healthz", "/readyz", "/livez"),
        AUTHORIZATION,
        "Paths anybody may read; a * at the end stands for the rest.",
    ),
    Flag("authorization-kubeconfig", kinds.TEXT, "", AUTHORIZATION, "Kubeconfig for SubjectAccessReviews."),
    Flag(
        "authorization-webhook-cache-authorized-ttl",
        kinds.DURATION,
        Duration.of(seconds=10),
        AUTHORIZATION,
        "How long an allowed request stays allowed without asking again.",
    ),
    Flag(
        "authorization-webhook-cache-unauthorized-ttl",
        kinds.DURATION,
        Duration.of(seconds=10),
        AUTHORIZATION,
        "How long a refused request stays refused without asking again.",
    ),
    Flag("profiling", kinds.BOOL, True, DEPRECATED, "Serve /debug/pprof. Ignored with --config."),
    Flag(
        "contention-profiling",
        kinds.BOOL,
        True,
        DEPRECATED,
        "Profile what blocks. Ignored with --config.",
        moot="one loop without locks has no contention to profile",
    ),
    Flag("kubeconfig", kinds.TEXT, "", DEPRECATED, "Kubeconfig of the API server. Ignored with --config."),
    Flag("kube-api-qps", kinds.FLOAT, DEFAULT_QPS, DEPRECATED, "Requests a second; no limit unless written."),
    Flag("kube-api-burst", kinds.INT32, DEFAULT_BURST, DEPRECATED, "Requests at once above --kube-api-qps."),
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
        "How long an unschedulable pod waits for an event that helps before it is tried anyway.",
    ),
    Flag("leader-elect", kinds.BOOL, _ELECTION.leader_elect, LEADER_ELECTION, "Work only while holding the lease."),
    Flag(
        "leader-elect-lease-duration",
        kinds.DURATION,
        _ELECTION.lease_duration,
        LEADER_ELECTION,
        "How long others wait after the last renewal before they take the lease.",
    ),
    Flag(
        "leader-elect-renew-deadline",
        kinds.DURATION,
        _ELECTION.renew_deadline,
        LEADER_ELECTION,
        "How long the leader tries to renew before it gives up; less than the lease duration.",
    ),
    Flag(
        "leader-elect-retry-period",
        kinds.DURATION,
        _ELECTION.retry_period,
        LEADER_ELECTION,
        "Pause between attempts to get or renew the lease.",
    ),
    Flag(
        "leader-elect-resource-lock",
        kinds.TEXT,
        _ELECTION.resource_lock,
        LEADER_ELECTION,
        "Kind of the lock; leases is the only one.",
    ),
    Flag("leader-elect-resource-name", kinds.TEXT, _ELECTION.resource_name, LEADER_ELECTION, "Name of the lease."),
    Flag(
        "leader-elect-resource-namespace",
        kinds.TEXT,
        _ELECTION.resource_namespace,
        LEADER_ELECTION,
        "Namespace of the lease.",
    ),
    Flag("feature-gates", kinds.GATES, (), FEATURES, "Gates to set: A=true,B=false or kube:A=true; may be repeated."),
    Flag("emulated-version", kinds.TEXTS, (), FEATURES, "Release whose gates to start from: 1.34 to 1.37."),
    Flag(
        "min-compatibility-version",
        kinds.TEXTS,
        (),
        FEATURES,
        "Oldest release in the control plane: 1.34 to 1.37.",
    ),
    Flag(
        "allow-metric-labels", kinds.MAP, {}, METRICS, "Label values kept, the others become unexpected: metric,l=a,b."
    ),
    Flag("allow-metric-labels-manifest", kinds.TEXT, "", METRICS, "File with an allowListMapping of the same form."),
    Flag("disabled-metrics", kinds.TEXTS, (), METRICS, "Full names of metrics to leave out."),
    Flag("show-hidden-metrics-for-version", kinds.TEXT, "", METRICS, "Show what this release hides: 1.36 only."),
    Flag("log-flush-frequency", kinds.DURATION, Duration.of(seconds=5), LOGS, "Time between flushes.", moot=_NO_SPLIT),
    Flag("log-json-info-buffer-size", kinds.BYTES, 0, LOGS, "Buffer of JSON logs.", moot=_NO_SPLIT),
    Flag("log-json-split-stream", kinds.BOOL, False, LOGS, "Errors to stderr, the rest to stdout.", moot=_NO_SPLIT),
    Flag("log-text-info-buffer-size", kinds.BYTES, 0, LOGS, "Buffer of text logs.", moot=_NO_SPLIT),
    Flag("log-text-split-stream", kinds.BOOL, False, LOGS, "Errors to stderr, the rest to stdout.", moot=_NO_SPLIT),
    Flag("logging-format", kinds.TEXT, "text", LOGS, "text or json."),
    Flag("v", kinds.LEVEL, 0, LOGS, "How much is logged; 2 has a line per decision.", short="v"),
    Flag("vmodule", kinds.MODULE_LEVELS, {}, LOGS, "Levels of single modules: scheduling_queue=5,bind*=4."),
    Flag("plugin", kinds.PATHS, (), OWN, "Third-party plugin as module:Class; may be repeated."),
    Flag(
        "cross-check-percent",
        kinds.FLOAT,
        0.0,
        OWN,
        "Percentage of cycles in which both forms of plugins are compared.",
    ),
    Flag(
        "explain-events",
        kinds.BOOL,
        False,
        OWN,
        "Record a second event for pods that fit nowhere: the first change that would let them run, once a minute.",
    ),
    Flag("decision-log", kinds.TEXT, "", OWN, "Write every decision to this file, one line of JSON each."),
    Flag("decision-log-max-size", kinds.BYTES, 100 << 20, OWN, "Size at which --decision-log is rotated."),
    Flag("decision-log-max-files", kinds.INT, 5, OWN, "Number of rotated files of --decision-log to keep."),
    Flag("shadow", kinds.TEXT, "", OWN, "Configuration to compare with the active one; it never writes."),
    Flag("shadow-percent", kinds.FLOAT, 100.0, OWN, "Percentage of the pods to compare with --shadow."),
    Flag("shadow-plugin", kinds.PATHS, (), OWN, "Plugin of --shadow as module:Class (default: those of --plugin)."),
    Flag("shadow-log", kinds.TEXT, "", OWN, "Write each comparison with --shadow to this file, one line of JSON each."),
    Flag("shadow-max-memory", kinds.BYTES, 4 << 30, OWN, "Memory limit of --shadow; it is disabled above the limit."),
    Flag("tracing-endpoint", kinds.TEXT, "", OWN, "OTLP/HTTP collector of traces of attempts, e.g. http://host:4318."),
    Flag("tracing-sampling-rate-per-million", kinds.INT32, 10_000, OWN, "Number of traced attempts per million."),
    Flag(
        "reload",
        kinds.BOOL,
        True,
        OWN,
        "Take up changes of --config and of the files of --plugin while running, and read them again on SIGHUP.",
    ),
    Flag("ui", kinds.BOOL, False, OWN, "Serve a web page about the cluster under /ui/."),
    Flag(
        "stuck-timeout",
        kinds.DURATION,
        Duration.of(seconds=60),
        OWN,
        "Time a plugin may block scheduling before /livez fails and the lease is let go; 0 for ever.",
    ),
    Flag("help", kinds.BOOL, False, GLOBAL, "Print this and exit.", short="h"),
    Flag("version", kinds.VERSION, "false", GLOBAL, "Print the version and exit; =raw prints all there is to say."),
)

FLAGS: Final[Mapping[str, Flag]] = MappingProxyType({flag.name: flag for flag in _ALL})
SHORT: Final[Mapping[str, Flag]] = MappingProxyType({flag.short: flag for flag in _ALL if flag.short})
GROUPS: Final = tuple(dict.fromkeys(flag.group for flag in _ALL))
