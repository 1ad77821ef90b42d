"""The feature gates of a command line: supported gates, and gates that change nothing here.

kube-scheduler accepts every gate of Kubernetes, and manifests set one list for all components; so gates of the kubelet
or the API server are accepted here as well. A gate that cannot be switched off here is rejected by name, never ignored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.common.version import NEWEST, OLDEST, RELEASE
from moorage.kube.features import (
    COMPONENT,
    FLAG,
    GATES_PAGE,
    GROUPS,
    RELEASES,
    FeatureGates,
    Stage,
    assignments,
    go_bool,
    known_gates,
    previous_release,
    version_pair,
)

EMULATED: Final = "--emulated-version"
COMPATIBLE: Final = "--min-compatibility-version"
_VERSION: Final = re.compile(r"1\.\d+")
_WITH_PATCH: Final = re.compile(r"1\.\d+\.\d+")

#: Gates of a scheduler that have no effect here, with the reason.
MOOT: Final[Mapping[str, str]] = {
    "OpportunisticBatching": "cached results replace it, without changing decisions",
    "SchedulerAsyncAPICalls": "writes never delay a cycle",
    "SchedulerPreQueueingHints": "unschedulable pods are always indexed by plugin",
    "InterPodAffinityHostnameFastPath": "affinity by hostname is always a lookup",
    "ClearingNominatedNodeNameAfterBinding": "implemented by the API server",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "implemented by the API server",
    "PodLevelResourcesFixDefaulting": "implemented by the API server",
    "PodLevelResourcesFixKubeletQOSClass": "implemented by the kubelet",
    "ContainerRestartRules": "implemented by the API server and the kubelet",
    "UserNamespacesSupport": "implemented by the kubelet",
    "RestartAllContainersOnContainerExits": "required node features are always derived from the pod spec",
    "UserNamespacesHostNetworkSupport": "required node features are always derived from the pod spec",
    "VolumeBindMountOptions": "required node features are always derived from the pod spec",
    "WorkloadWithJob": "implemented by the job controller, also in `moorage up`",
    "ManagedFieldsOptOut": "implemented by the API server, also in `moorage up`",
}

#: Gates that emulated releases can disable but Moorage cannot, with the feature.
PERMANENT: Final[Mapping[str, str]] = {
    "DynamicResourceAllocation": "device claims",
    "VolumeAttributesClass": "VolumeAttributesClasses",
    "InPlacePodVerticalScaling": "the status of a resize",
}

#: Gates of other components that may be set to true or false.
FREE: Final = frozenset(
    """
    APIResponseCompression APIServerIdentity APIServerWebhookAuthenticationToken APIServingWithRoutine
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests AllowParsingUserUIDFromCertAuth
    AllowServiceExternalIPs AllowUnsafeMalformedObjectDeletion AtomicFIFO AtomicWriteVolumeUserFields
    AuthorizePodWebsocketUpgradeCreatePermission CBORServingAndStorage CPUManagerPolicyAlphaOptions
    CPUManagerPolicyBetaOptions CRDObservedGenerationTracking CRIListStreaming CSIVolumeHealth
    ChangeContainerStatusOnKubeletRestart ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC
    ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
    ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
    ConsistentListFromCacheSkipTimeoutFallback ConstrainedImpersonation ContainerCheckpoint ContainerStopSignals
    ContextualLogging CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DRAPartitionableDevicesType
    DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DeclarativeValidationBeta DefaultPodSysctls
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EmptyDirVolumeMode EnvFiles EtcdRangeStream
    EventedPLEG EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet
    GRPCContainerProbeTLS GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority H2CContainerProbe
    HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction ImageVolumeWithDigest
    InOrderInformersBatchProcess InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InPlacePodVerticalScalingMemoryBackedVolumes InformerResourceVersion KMSv1 KubeProxyIPVS
    KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletPodResourcesListUseActivePods
    KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
    ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions
    ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS MutablePVNodeAffinity
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy
    NFTablesNetlink NativeHistograms NodeControllerLeaseCircuitBreaker NodeLifecycleConditions OpenAPIEnums
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost
    PodLevelResourceManagers PodLogsQuerySplitStreams PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets
    QOSReserved ReduceDefaultCrashLoopBackOffDecay ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile
    RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage RotateKubeletServerCertificate
    RuntimeClassInImageCriApi SELinuxMount ServiceAccountNodeAudienceRestriction ServiceCIDRStatusFieldWiping
    ShardedListAndWatch SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
    StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
    StatefulSetRecreateStrategy StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionAPI
    StorageVersionHash StorageVersionMigrator StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    TokenRequestServiceAccountUIDValidation TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UnlockWhileProcessingFIFO WatchList WatchListClient WatchListCompression WebhookRoundTripLoadBalancing
    WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork
    """.split()  # noqa: SIM905 - a hundred names read better as a paragraph
)

#: Gates of other components that have graduated and are always on.
LOCKED_ON: Final = frozenset(
    """
    AggregatedDiscoveryRemoveBetaType CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
    CustomResourceFieldSelectors DeclarativeValidation DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs
    DisableNodeKubeProxyVersion ExecProbeTimeout ExternalServiceAccountTokenSigner HPAConfigurableTolerance
    HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScalingInitContainers
    JobManagedBy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
    KubeletPodResourcesGet KubeletTracing MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
    NodeLogQuery NodeSwap PLEGOnDemandRelist PodObservedGenerationTracking PodReadyToStartContainersCondition
    PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
    RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation SELinuxChangePolicy
    SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI
    ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions WatchCacheInitializationPostStartHook
    WinDSR WinOverlay
    """.split()  # noqa: SIM905 - as above
)

#: Gates of other components that are always off.
LOCKED_OFF: Final = frozenset(
    [
        "AllowOverwriteTerminationGracePeriodSeconds",
        "DeclarativeValidationTakeover",
        "GitRepoVolumeDriver",
        "SeparateCacheWatchRPC",
    ]
)

#: Gates of other components that 1.38 adds. All but the first one are planned only.
_NEW_IN_1_38: Final = frozenset(
    """
    PodCertificateMLDSA CSIControllerGetNodeInfo WorkloadControlledSwap MutableContainerProbes
    PodDefaultNetwork ContainerUlimits SecurityProfileOCI CgroupNamespacesSupport PodImplicitRootWarnings
    ExternalNodeLivenessDetection WatchCacheStallResume
    """.split()  # noqa: SIM905 - as above
)
_GONE_IN_1_38: Final = frozenset(["AggregatedDiscoveryRemoveBetaType"])


def elsewhere(release: str) -> frozenset[str]:
    """Return the gates of other components that a release knows."""
    gates = FREE | LOCKED_ON | LOCKED_OFF
    return gates if version_pair(release) < (1, 38) else (gates | _NEW_IN_1_38) - _GONE_IN_1_38


class GateChoice(Struct, frozen=True):
    """The gates in force, and gates worth a log line: those without effect, and those no longer supported."""

    features: FeatureGates
    moot: Mapping[str, str] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    """Alpha features of an emulated release, which upstream no longer tests."""


def choose_gates(flags: Sequence[str], emulated: Sequence[str] = (), compatible: Sequence[str] = ()) -> GateChoice:
    """Read --feature-gates, --emulated-version and --min-compatibility-version; ConfigErrors lists invalid values."""
    release, oldest = _releases(emulated, compatible)
    gate_values = _read_gates(flags, release)
    foreign = elsewhere(release)
    own = {name: value for name, value in gate_values.items() if name not in foreign}
    features = FeatureGates(own, release=release, oldest=oldest)
    if problems := [
        ConfigError(
            FLAG,
            f"cannot set feature gate {name} to false: Moorage always supports {description}",
            hint=f"remove {name}",
        )
        for name, description in PERMANENT.items()
        if not features.enabled(name)
    ]:
        raise ConfigErrors(problems)
    moot = {
        name: MOOT.get(name, "it belongs to another component")
        for name in gate_values
        if name in MOOT or name in foreign
    }
    unsupported = tuple(
        name
        for name, gate in features.gates.items()
        if not features.since(*version_pair(RELEASE)) and gate.stage is Stage.ALPHA and features.enabled(name)
    )
    return GateChoice(features, moot, unsupported)


def all_gates(flags: Sequence[str], emulated: Sequence[str] = (), compatible: Sequence[str] = ()) -> FeatureGates:
    """Read the same flags for commands that run no scheduler: permanent features may be off."""
    release, oldest = _releases(emulated, compatible)
    gate_values = _read_gates(flags, release)
    own = {name: value for name, value in gate_values.items() if name not in elsewhere(release)}
    return FeatureGates(own, release=release, oldest=oldest)


def _read_gates(flags: Sequence[str], release: str) -> dict[str, bool]:
    gate_values = dict(assignments(*flags))
    if problems := [*_unknown(gate_values, release), *_list_locked(gate_values, release)]:
        raise ConfigErrors(problems)
    return gate_values


def _unknown(gate_values: Mapping[str, bool], release: str) -> Iterator[ConfigError]:
    names = {*known_gates(release), *GROUPS, *elsewhere(release)}
    for name in gate_values:
        if name not in names:
            hint = did_you_mean(name, names) or GATES_PAGE
            yield ConfigError(FLAG, f"unrecognized feature gate: {name}", hint=hint)


def _list_locked(gate_values: Mapping[str, bool], release: str) -> Iterator[ConfigError]:
    # The history of other components' gates is not available here, and changes nothing.
    for name, value in gate_values.items() if version_pair(release) >= version_pair(RELEASE) else ():
        if (name in LOCKED_ON and not value) or (name in LOCKED_OFF and value):
            text = f"cannot set feature gate {name} to {go_bool(value)}, feature is locked to {go_bool(not value)}"
            yield ConfigError(FLAG, text, hint=f"remove {name}: the gate is locked")


def _releases(emulated: Sequence[str], compatible: Sequence[str]) -> tuple[str, str]:
    """Return the release to emulate and the oldest compatible one, validated as in kube-scheduler."""
    release = _version(EMULATED, emulated) or RELEASE
    if release not in RELEASES:
        text = f"emulation version {release} is not between [{OLDEST}, {NEWEST}.0]"
        raise ConfigError(EMULATED, text, hint=f"write one of {', '.join(RELEASES)}, or omit it")
    oldest = _version(COMPATIBLE, compatible) or previous_release(release)
    if oldest not in RELEASES or version_pair(oldest) > version_pair(release):
        text = f"minCompatibilityVersion version {oldest} is not between [{OLDEST}, {release}]"
        raise ConfigError(COMPATIBLE, text, hint=f"write {previous_release(release)} or {release}, or omit it")
    return release, oldest


def _version(flag: str, values: Sequence[str]) -> str:
    version = ""
    for item in values:
        component, _, version = item.strip().rpartition("=")
        if component not in ("", COMPONENT):
            raise ConfigError(flag, f"component not registered: {component}", hint="the only component is kube")
        version = version.removeprefix("v")
        if _WITH_PATCH.fullmatch(version):
            raise ConfigError(flag, f"patch version not allowed, got: kube={version}", hint=f"write {version[:4]}")
        if not _VERSION.fullmatch(version):
            raise ConfigError(
                flag, f"could not parse {version!r} as version", hint=f"write {RELEASE} or kube={RELEASE}"
            )
    return version
