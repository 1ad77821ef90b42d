"""The options of the command line, checked and typed: configuration, gates, and how to serve, log and measure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import ConfigErrors, InputError, did_you_mean
from moorage.common.user_files import read_text
from moorage.common.version import RELEASE
from moorage.kube.features import FeatureGates, previous_release
from moorage.scheduler.config.loading import default_config, load_config_file
from moorage.scheduler.config.plugin_facts import Catalogue
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.config.validation import validate
from moorage.scheduler.daemon.feature_gates import GateChoice, choose_gates
from moorage.scheduler.daemon.flags.parsing import FlagValues
from moorage.scheduler.daemon.flags.table import GROUPS, LEADER_ELECTION, NamedCertificate

if TYPE_CHECKING:
    from moorage.scheduler.framework.registry import Registry
    from moorage.scheduler.wiring.policy import Policy

LOG_FORMATS: Final = ("text", "json")
TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
PREVIOUS_RELEASE: Final = previous_release(RELEASE)

_ELECTION_FIELDS: Final = {
    flag.name: flag.name.removeprefix("leader-elect-").replace("-", "_") for flag in GROUPS[LEADER_ELECTION]
}


class ServingOptions(Struct, frozen=True):
    """Address and certificates of the server."""

    address: str
    port: int
    cert_dir: str = ""
    cert_file: str = ""
    key_file: str = ""
    named_certificates: tuple[NamedCertificate, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    min_version: str = ""
    share_port: bool = False
    share_address: bool = False


class ProxyHeaders(Struct, frozen=True):
    """The headers in which proxies name users, and the common names of trusted proxies, or empty for all of the CA."""

    username: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ("x-remote-group",)
    extra_prefix: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()


class AuthenticationOptions(Struct, frozen=True):
    """How to authenticate clients; times in seconds."""

    kubeconfig: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    cache_ttl: float = 10.0
    client_ca_file: str = ""
    proxy_ca_file: str = ""
    proxy_headers: ProxyHeaders = ProxyHeaders()


class AuthorizationOptions(Struct, frozen=True):
    """How to authorize clients; times in seconds."""

    kubeconfig: str = ""
    always_allow: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    allowed_ttl: float = 10.0
    denied_ttl: float = 10.0


class LoggingOptions(Struct, frozen=True):
    """Verbosity and format of logs."""

    format: str = "text"
    verbosity: int = 0
    modules: Mapping[str, int] | None = None


class MetricsOptions(Struct, frozen=True):
    """Which metrics and label values to omit."""

    disabled: frozenset[str] = frozenset()
    allowed_labels: Mapping[str, frozenset[str]] | None = None
    show_hidden: bool = False


class Options(Struct, frozen=True):
    """All options, checked and completed."""

    flags: FlagValues
    gates: GateChoice
    config: SchedulerConfiguration
    registry: "Registry"
    serving: ServingOptions
    authentication: AuthenticationOptions
    authorization: AuthorizationOptions
    logging: LoggingOptions
    metrics: MetricsOptions

    @property
    def features(self) -> FeatureGates:
        """The gates in force."""
        return self.gates.features

    @property
    def policy(self) -> "Policy":
        """How to schedule."""
        from moorage.scheduler.wiring.policy import Policy

        return Policy(self.config, self.registry, self.features)


def complete_options(flags: FlagValues) -> Options:
    """Check flags against each other and read the files they name."""
    # Plugins and their dependencies: the supervisor reads options, too, and does without them.
    from moorage.scheduler.wiring.policy import build_catalogue, collect_plugins, require_plugins

    gates = choose_gates(flags["feature-gates"], flags["emulated-version"], flags["min-compatibility-version"])
    registry = collect_plugins(paths=flags["plugin"], with_installed=bool(flags["config"]))
    registry.call_timeout = flags["plugin-timeout"].seconds or None
    if not 0 <= flags["cross-check-percent"] <= 100:
        raise InputError("--cross-check-percent", f"{flags['cross-check-percent']:g} is not a percentage")
    config = configuration(flags, gates.features, build_catalogue(registry))
    if not flags["write-config-to"]:
        require_plugins(config, registry)
    return Options(
        flags=flags,
        gates=gates,
        config=config,
        registry=registry,
        serving=_serving(flags),
        authentication=AuthenticationOptions(
            kubeconfig=flags["authentication-kubeconfig"],
            skip_lookup=flags["authentication-skip-lookup"],
            tolerate_lookup_failure=flags["authentication-tolerate-lookup-failure"],
            cache_ttl=flags["authentication-token-webhook-cache-ttl"].seconds,
            client_ca_file=flags["client-ca-file"],
            proxy_ca_file=flags["requestheader-client-ca-file"],
            proxy_headers=ProxyHeaders(
                username=flags["requestheader-username-headers"],
                uid=flags["requestheader-uid-headers"],
                group=flags["requestheader-group-headers"],
                extra_prefix=flags["requestheader-extra-headers-prefix"],
                allowed_names=flags["requestheader-allowed-names"],
            ),
        ),
        authorization=AuthorizationOptions(
            kubeconfig=flags["authorization-kubeconfig"],
            always_allow=flags["authorization-always-allow-paths"],
            allowed_ttl=flags["authorization-webhook-cache-authorized-ttl"].seconds,
            denied_ttl=flags["authorization-webhook-cache-unauthorized-ttl"].seconds,
        ),
        logging=logging_options(flags),
        metrics=_metrics(flags),
    )


def configuration(flags: FlagValues, features: FeatureGates, catalogue: Catalogue) -> SchedulerConfiguration:
    """Read --config, or apply the deprecated flags to the defaults. Leader-election flags override either."""
    if flags["config"]:
        config = load_config_file(flags["config"], gates=features, catalogue=catalogue, where="--config")
    else:
        config = _with_deprecated(flags, default_config(gates=features, catalogue=catalogue))
    flag_values = {field: flags[name] for name, field in _ELECTION_FIELDS.items() if flags.is_given(name)}
    config = replace(config, leader_election=replace(config.leader_election, **flag_values))
    if problems := [*validate(config, features)]:
        raise ConfigErrors(problems)
    return config


def _with_deprecated(flags: FlagValues, config: SchedulerConfiguration) -> SchedulerConfiguration:
    connection: dict[str, Any] = {
        field: flags[name]
        for name, field in (
            ("kubeconfig", "kubeconfig"),
            ("kube-api-qps", "qps"),
            ("kube-api-burst", "burst"),
            ("kube-api-content-type", "content_type"),
        )
        if flags.is_given(name)
    }
    profiling = flags["profiling"]
    return replace(
        config,
        client_connection=replace(config.client_connection, **connection),
        enable_profiling=profiling,
        enable_contention_profiling=profiling and flags["contention-profiling"],
    )


def _serving(flags: FlagValues) -> ServingOptions:
    port, version = flags["secure-port"], flags["tls-min-version"]
    if not 0 <= port <= 65535:
        raise InputError("--secure-port", f"{port} must be between 0 and 65535, inclusive. 0 disables serving")
    if version and version not in TLS_VERSIONS:
        hint = did_you_mean(version, TLS_VERSIONS) or f"write one of {', '.join(TLS_VERSIONS)}"
        raise InputError("--tls-min-version", f'unknown tls version "{version}"', hint=hint)
    if bool(flags["tls-cert-file"]) != bool(flags["tls-private-key-file"]):
        raise InputError("--tls-cert-file", "--tls-cert-file and --tls-private-key-file must be set together")
    return ServingOptions(
        address=flags["bind-address"],
        port=port,
        cert_dir=flags["cert-dir"],
        cert_file=flags["tls-cert-file"],
        key_file=flags["tls-private-key-file"],
        named_certificates=flags["tls-sni-cert-key"],
        cipher_suites=flags["tls-cipher-suites"],
        min_version=version,
        share_port=flags["permit-port-sharing"],
        share_address=flags["permit-address-sharing"],
    )


def logging_options(flags: FlagValues) -> LoggingOptions:
    """Read the flags of logs. They are needed before all other flags."""
    form = flags["logging-format"]
    if form not in LOG_FORMATS:
        raise InputError("--logging-format", f'Unsupported log format "{form}"', hint="write text or json")
    if form == "json" and flags["vmodule"]:
        raise InputError(
            "--vmodule", "Only supported for text log format", hint="remove it, or use --logging-format=text"
        )
    return LoggingOptions(form, flags["v"], flags["vmodule"])


def _metrics(flags: FlagValues) -> MetricsOptions:
    version = flags["show-hidden-metrics-for-version"]
    if version not in ("", PREVIOUS_RELEASE):
        text = f"only the previous minor version is meaningful, not {version!r}"
        raise InputError("--show-hidden-metrics-for-version", text, hint=f"write {PREVIOUS_RELEASE}")
    allowed_labels = {**_allow_manifest(flags["allow-metric-labels-manifest"]), **flags["allow-metric-labels"]}
    return MetricsOptions(
        disabled=frozenset(flags["disabled-metrics"]),
        allowed_labels={key: frozenset(filter(None, text.split(","))) for key, text in allowed_labels.items()},
        show_hidden=bool(version),
    )


def _allow_manifest(path: str) -> dict[str, str]:
    if not path:
        return {}
    from moorage.kube.api.documents import read_documents

    text = read_text(path, where="--allow-metric-labels-manifest")
    content: Any = next(read_documents(text, source=f"--allow-metric-labels-manifest: {path}"), {})
    mapping = content.get("allowListMapping", content) if isinstance(content, dict) else None
    if not isinstance(mapping, dict):
        hint = 'write allowListMapping: {"metric,label": "value,value"}'
        raise InputError("--allow-metric-labels-manifest", f"{path} has no mapping", hint=hint)
    return {str(key): str(value or "") for key, value in mapping.items()}
