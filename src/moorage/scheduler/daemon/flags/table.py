"""Every flag by group, with its type, default and purpose: upstream's names, types, defaults and groups."""

import ipaddress
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from moorage.common.errors import QuantityError
from moorage.common.version import NEWEST, OLDEST, RELEASE
from moorage.kube.api import quantity
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.types import DEFAULT_BURST, DEFAULT_QPS, ClientConnection, LeaderElection

TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
MODULE_LEVEL: Final = re.compile(r"(?P<pattern>[^=]+)=(?P<level>\d+)")


class NamedCertificate(NamedTuple):
    """One value of --tls-sni-cert-key; without names, those in the certificate count."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


class FlagKind(Struct, frozen=True):
    """A type of flag. ``read`` raises ValueError for an invalid text. ``bare`` is the value of a flag without one."""

    name: str
    read: Callable[[str], Any]
    bare: str | None = None
    #: Joins the values of a repeated flag. Without it, the last value counts.
    join: Callable[[Any, Any], Any] | None = None


def _read_bool(text: str) -> bool:
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _integer_reader(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)", text, re.ASCII):
            raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        number = int(text, 16 if "x" in text.lower() else 10)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
        return number

    return read


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _read_integers(text: str) -> tuple[int, ...]:
    read = _integer_reader(32)
    return tuple(read(item.strip()) for item in _read_list(text))


def _read_map(text: str) -> dict[str, str]:
    """Read ``key='a,b',key2=c``. With a single pair every comma belongs to it, since keys here are ``metric,label``."""
    if text.count("=") == 1:
        key, _, value = text.partition("=")
        return {key.strip(): value.strip("'\"")}
    entries: dict[str, str] = {}
    unread_text = text.strip()
    while unread_text:
        match = re.match(r"""(?P<key>[^=]+)=(?P<value>'[^']*'|"[^"]*"|[^,]*)(?:,\s*|$)""", unread_text)
        if match is None:
            raise ValueError(f"{unread_text} must be formatted as key=value")
        entries[match["key"].strip()] = match["value"].strip("'\"")
        unread_text = unread_text[match.end() :]
    return entries


def _read_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f'failed to parse IP: "{text}"') from None


def _read_certificate(text: str) -> tuple[NamedCertificate, ...]:
    files, _, names = text.partition(":")
    pair = files.split(",")
    if len(pair) != 2 or not all(pair):
        raise ValueError("expected comma separated certificate and key file paths")
    return (NamedCertificate(pair[0], pair[1], tuple(name for name in names.split(",") if name)),)


def _read_bytes(text: str) -> int:
    try:
        return quantity.unit_value(text)
    except QuantityError as error:
        raise ValueError(str(error)) from error


def _read_modules(text: str) -> dict[str, int]:
    levels = {}
    for item in filter(None, text.split(",")):
        match = MODULE_LEVEL.fullmatch(item.strip())
        if match is None:
            raise ValueError("syntax error: expect comma-separated list of filename=N")
        levels[match["pattern"]] = int(match["level"])
    return levels


TEXT: Final = FlagKind("string", str)
BOOL: Final = FlagKind("bool", _read_bool, bare="true")
INT: Final = FlagKind("int", _integer_reader(64))
INT32: Final = FlagKind("int32", _integer_reader(32))
FLOAT: Final = FlagKind("float32", _read_float)
DURATION: Final = FlagKind("duration", Duration.parse)
ADDRESS: Final = FlagKind("ip", _read_address)
TEXTS: Final = FlagKind("strings", _read_list, join=operator.add)
INTEGERS: Final = FlagKind("int32Slice", _read_integers, join=operator.add)
MAP: Final = FlagKind("stringToString", _read_map, join=operator.or_)
CERTIFICATES: Final = FlagKind("namedCertKey", _read_certificate, join=operator.add)
BYTES: Final = FlagKind("quantity", _read_bytes)
LEVEL: Final = FlagKind("Level", _integer_reader(32))
MODULE_LEVELS: Final = FlagKind("pattern=N,...", _read_modules)
GATES: Final = FlagKind("gates", lambda text: (text,), join=operator.add)
VERSION: Final = FlagKind("version", str, bare="true")
PATHS: Final = FlagKind("module:Class", lambda text: (text,), join=operator.add)


def format_value(value: Any) -> str:
    """Format a value as on the command line."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return ",".join(f"{key}={format_value(item)}" for key, item in value.items())
        case NamedCertificate():
            files = f"{value.cert_file},{value.key_file}"
            return f"{files}:{','.join(value.names)}" if value.names else files
        case tuple():
            return ",".join(format_value(item) for item in value)
        case float():
            return f"{value:g}"
        case int() if value >= 1 << 20:  # a size in bytes: no other number is that large
            return f"{value >> 30}Gi" if value % (1 << 30) == 0 else f"{value / (1 << 20):g}Mi"
        case _:
            return str(value)


LEADER_ELECTION: Final = "Leader election"
OWN: Final = "Moorage"

_NO_HTTP2: Final = "this server supports only HTTP/1.1"
_NO_SPLIT: Final = "logs are one stream without a buffer"
_NO_CURVES: Final = "OpenSSL chooses the key exchange"


class Flag(Struct, frozen=True):
    """One flag. ``moot`` is the reason why it has no effect: it is accepted, and the reason is logged."""

    name: str
    kind: FlagKind
    default: Any
    help: str
    moot: str = ""
    short: str = ""
    #: Whether texts for users show the default, which upstream uses without the flag.
    shows_default: bool = True


_ELECTION: Final = LeaderElection()
_TEN_SECONDS: Final = Duration.of(seconds=10)

GROUPS: Final[Mapping[str, tuple[Flag, ...]]] = {
    "Misc": (
        Flag("config", TEXT, "", "Configuration file (KubeSchedulerConfiguration v1)."),
        Flag("master", TEXT, "", "Address of the API server; overrides the kubeconfig."),
        Flag("write-config-to", TEXT, "", "Write the completed configuration to this file and exit."),
    ),
    "Secure serving": (
        Flag("bind-address", ADDRESS, "0.0.0.0", "Address to serve on; 0.0.0.0 and :: mean all addresses."),
        Flag("secure-port", INT, 10259, "Port to serve HTTPS on; 0 disables serving."),
        Flag(
            "cert-dir",
            TEXT,
            "",
            "Directory of the files kube-scheduler.crt and kube-scheduler.key, which are created if missing. Ignored "
            "with --tls-cert-file. Without both flags, a certificate is generated in memory.",
        ),
        Flag("tls-cert-file", TEXT, "", "Certificate to serve with, followed by its chain."),
        Flag("tls-private-key-file", TEXT, "", "Private key of the certificate in --tls-cert-file."),
        Flag("tls-cipher-suites", TEXTS, (), "Allowed cipher suites, by their Go names."),
        Flag("tls-curve-preferences", INTEGERS, (), "Allowed key exchanges, by number.", moot=_NO_CURVES),
        Flag("tls-min-version", TEXT, "", "Minimum TLS version: VersionTLS12 or VersionTLS13."),
        Flag("tls-sni-cert-key", CERTIFICATES, (), "Certificate and key for server names: c.crt,c.key:name."),
        Flag("http2-max-streams-per-connection", INT, 0, "Maximum HTTP/2 streams per client.", moot=_NO_HTTP2),
        Flag("disable-http2-serving", BOOL, False, "Do not serve HTTP/2.", moot=_NO_HTTP2),
        Flag("permit-port-sharing", BOOL, False, "Let other processes share the port (SO_REUSEPORT)."),
        Flag("permit-address-sharing", BOOL, False, "Reuse an address in TIME_WAIT (SO_REUSEADDR)."),
    ),
    "Authentication": (
        Flag(
            "authentication-kubeconfig",
            TEXT,
            "",
            "Kubeconfig for TokenReviews; without it, all requests are anonymous.",
        ),
        Flag("authentication-skip-lookup", BOOL, False, "Do not look up client CAs in the cluster."),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            _TEN_SECONDS,
            "Time for which a TokenReview result is cached.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            True,
            "Start even if the client CAs cannot be looked up; all requests are then anonymous.",
        ),
        Flag(
            "client-ca-file",
            TEXT,
            "",
            "CA certificate file; a client certificate of this CA identifies its user.",
        ),
        Flag("requestheader-allowed-names", TEXTS, (), "Common names of trusted proxies."),
        Flag("requestheader-client-ca-file", TEXT, "", "CA of proxies that identify users."),
        Flag(
            "requestheader-extra-headers-prefix",
            TEXTS,
            ("x-remote-extra-",),
            "Prefixes of headers with extra user attributes.",
        ),
        Flag("requestheader-group-headers", TEXTS, ("x-remote-group",), "Headers that contain the groups of the user."),
        Flag("requestheader-uid-headers", TEXTS, (), "Headers that contain the uid of the user."),
        Flag("requestheader-username-headers", TEXTS, ("x-remote-user",), "Headers that contain the name of the user."),
    ),
    "Authorization": (
        Flag(
            "authorization-always-allow-paths",
            TEXTS,
            ("/healthz", "/readyz", "/livez"),
            "Paths that need no authorization; a trailing * matches any suffix.",
        ),
        Flag("authorization-kubeconfig", TEXT, "", "Kubeconfig for SubjectAccessReviews."),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            _TEN_SECONDS,
            "Time for which an allowed request is cached.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            _TEN_SECONDS,
            "Time for which a denied request is cached.",
        ),
    ),
    "Deprecated": (
        Flag("profiling", BOOL, True, "Serve /debug/pprof. Ignored with --config."),
        Flag(
            "contention-profiling",
            BOOL,
            True,
            "Enable block profiling. Ignored with --config.",
            moot="one loop without locks has no contention to profile",
        ),
        Flag("kubeconfig", TEXT, "", "Kubeconfig of the API server. Ignored with --config."),
        Flag(
            "kube-api-qps",
            FLOAT,
            DEFAULT_QPS,
            "Maximum requests per second. Without this flag there is no limit. Ignored with --config.",
            shows_default=False,
        ),
        Flag("kube-api-burst", INT32, DEFAULT_BURST, "Burst of requests above --kube-api-qps. Ignored with --config."),
        Flag(
            "kube-api-content-type",
            TEXT,
            ClientConnection().content_type,
            "Content type of requests. Ignored with --config.",
            moot="requests are always JSON",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            Duration.of(seconds=300),
            "Time after which an unschedulable pod is retried without an event.",
        ),
    ),
    LEADER_ELECTION: (
        Flag("leader-elect", BOOL, _ELECTION.leader_elect, "Schedule only while holding the lease."),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            _ELECTION.lease_duration,
            "Time after the last renewal until other replicas take the lease.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            _ELECTION.renew_deadline,
            "Time in which the leader must renew; less than the lease duration.",
        ),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            _ELECTION.retry_period,
            "Time between attempts to acquire or renew the lease.",
        ),
        Flag(
            "leader-elect-resource-lock", TEXT, _ELECTION.resource_lock, "Kind of the lock; only leases is supported."
        ),
        Flag("leader-elect-resource-name", TEXT, _ELECTION.resource_name, "Name of the lease."),
        Flag("leader-elect-resource-namespace", TEXT, _ELECTION.resource_namespace, "Namespace of the lease."),
    ),
    "Feature gate": (
        Flag("feature-gates", GATES, (), "Feature gates: A=true,B=false or kube:A=true; may be repeated."),
        Flag("emulated-version", TEXTS, (), f"Release to emulate: {OLDEST} to {NEWEST} (default: {RELEASE})."),
        Flag(
            "min-compatibility-version",
            TEXTS,
            (),
            f"Oldest Kubernetes version of the API servers to work with: {OLDEST} to {NEWEST}.",
        ),
    ),
    "Metrics": (
        Flag(
            "allow-metric-labels",
            MAP,
            {},
            'Allowed values of a label, as METRIC,LABEL=A,B; other values become "unexpected".',
        ),
        Flag("allow-metric-labels-manifest", TEXT, "", "File with an allowListMapping of the same form."),
        Flag("disabled-metrics", TEXTS, (), "Full names of metrics to disable."),
        Flag(
            "show-hidden-metrics-for-version",
            TEXT,
            "",
            "Show metrics hidden since this release; only 1.36 is accepted.",
        ),
    ),
    "Logs": (
        Flag("log-flush-frequency", DURATION, Duration.of(seconds=5), "Time between flushes.", moot=_NO_SPLIT),
        Flag("log-json-info-buffer-size", BYTES, 0, "Buffer of JSON logs.", moot=_NO_SPLIT),
        Flag("log-json-split-stream", BOOL, False, "Write errors to stderr and the rest to stdout.", moot=_NO_SPLIT),
        Flag("log-text-info-buffer-size", BYTES, 0, "Buffer of text logs.", moot=_NO_SPLIT),
        Flag("log-text-split-stream", BOOL, False, "Write errors to stderr and the rest to stdout.", moot=_NO_SPLIT),
        Flag("logging-format", TEXT, "text", "text or json."),
        Flag("v", LEVEL, 0, "Log verbosity; 2 logs each decision.", short="v"),
        Flag("vmodule", MODULE_LEVELS, {}, "Verbosity of single modules: scheduling_queue=5,bind*=4."),
    ),
    OWN: (
        Flag("plugin", PATHS, (), "Plugin to load as module:NAME, a class or a function; may be repeated."),
        Flag(
            "plugin-timeout",
            DURATION,
            Duration.of(seconds=60),
            "Timeout of asynchronous plugin calls, unless the class sets call_timeout; 0 means no limit.",
        ),
        Flag(
            "cross-check-percent",
            FLOAT,
            0.0,
            "Percentage of cycles in which cached results are recomputed and compared.",
        ),
        Flag(
            "explain-events",
            BOOL,
            False,
            "Record a second event for unschedulable pods, with the first suggested change, at most once per minute "
            "for each pod.",
        ),
        Flag("decision-log", TEXT, "", "Write every decision to this file, one line of JSON each."),
        Flag("decision-log-max-size", BYTES, 100 << 20, "Size at which --decision-log is rotated."),
        Flag("decision-log-max-files", INT, 5, "Number of rotated files of --decision-log to keep."),
        Flag("shadow", TEXT, "", "Configuration to compare with the active one; the shadow never writes."),
        Flag("shadow-percent", FLOAT, 100.0, "Percentage of the pods to compare with --shadow."),
        Flag("shadow-plugin", PATHS, (), "Plugin of --shadow as module:NAME (default: those of --plugin)."),
        Flag("shadow-log", TEXT, "", "Write each comparison with --shadow to this file, one line of JSON each."),
        Flag("shadow-max-memory", BYTES, 4 << 30, "Memory limit of --shadow; it is disabled above the limit."),
        Flag(
            "tracing-endpoint",
            TEXT,
            "",
            "OTLP/HTTP collector for traces of scheduling attempts, such as http://host:4318.",
        ),
        Flag("tracing-sampling-rate-per-million", INT32, 10_000, "Number of traced attempts per million."),
        Flag(
            "reload", BOOL, True, "Apply changes to the --config and --plugin files while running; SIGHUP rereads them."
        ),
        Flag("ui", BOOL, False, "Serve a web page about the cluster under /ui/."),
        Flag(
            "stuck-timeout",
            DURATION,
            Duration.of(seconds=60),
            "Time for which a plugin may block scheduling before /livez fails and the lease is released; 0 means no "
            "limit.",
        ),
    ),
    "Global": (
        Flag("help", BOOL, False, "Print this help and exit.", short="h"),
        Flag("version", VERSION, "false", "Print the version and exit; --version=raw prints all details."),
    ),
}

FLAGS: Final[Mapping[str, Flag]] = MappingProxyType({flag.name: flag for flags in GROUPS.values() for flag in flags})
SHORT: Final[Mapping[str, Flag]] = MappingProxyType({flag.short: flag for flag in FLAGS.values() if flag.short})
