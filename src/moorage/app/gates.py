"""Which feature gates a command line asks for: those we honour, those that change nothing here, those we lack.

kube-scheduler takes every gate of Kubernetes, and manifests set one list for all components; so gates of the kubelet or
the API server are accepted here, too. A gate whose feature we lack is refused by name, never ignored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moorage.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.features import COMPONENT, FLAG, GATES, GROUPS, FeatureGates, assignments

RELEASE: Final = "1.37"
OLDEST_COMPATIBLE: Final = "1.36"
_VERSION: Final = re.compile(r"1\.\d+")

#: Gates that are off unless set and whose feature is not here, with what it would be.
LACKING: Final[Mapping[str, str]] = {
    "GenericWorkload": "pod groups and gang scheduling",
    "TopologyAwareWorkloadScheduling": "placing pod groups by topology",
    "CompositePodGroup": "groups of pod groups",
    "PodGroupPreemptionPolicy": "preemption for pod groups",
    "DRAWorkloadResourceClaims": "device claims shared by pod groups",
    "DRANodeAllocatableResources": "devices that stand for node resources",
    "DRAOptionalNodeOperations": "drivers without node operations",
    "DRAListTypeAttributes": "lists as device attributes",
    "DRADeviceCompatibilityGroups": "device compatibility groups",
    "DRADerivedAttributes": "derived device attributes",
    "InPlacePodVerticalScalingSchedulerPreemption": "preemption for resizes that the kubelet has put off",
    "TaintTolerationComparisonOperators": "the toleration operators Lt and Gt",
    "CoordinatedLeaderElection": "lease candidates",
}

#: Gates that are ours to know and whose setting changes nothing here, with the reason.
MOOT: Final[Mapping[str, str]] = {
    "OpportunisticBatching": "standing answers take its place and never change a decision",
    "SchedulerAsyncAPICalls": "writes never delay a cycle, with or without it",
    "SchedulerPreQueueingHints": "rejected pods are always filed by plugin",
    "InterPodAffinityHostnameFastPath": "affinity by host name is always a look-up",
    "ClearingNominatedNodeNameAfterBinding": "the API server does that",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "the API server does that",
    "PodLevelResourcesFixDefaulting": "the API server does that",
    "PodLevelResourcesFixKubeletQOSClass": "the kubelet does that",
    "ContainerRestartRules": "the kubelet does that",
    "RestartAllContainersOnContainerExits": "what a pod needs of its node is read from its spec in any case",
    "UserNamespacesHostNetworkSupport": "what a pod needs of its node is read from its spec in any case",
    "VolumeBindMountOptions": "what a pod needs of its node is read from its spec in any case",
    "WorkloadWithJob": "the job controller does that",
}

_ELSEWHERE: Final = frozenset(
    """
    APIResponseCompression APIServerIdentity APIServerWebhookAuthenticationToken APIServingWithRoutine
    AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion AtomicFIFO AtomicWriteVolumeUserFields
    AuthorizePodWebsocketUpgradeCreatePermission CBORServingAndStorage CPUManagerPolicyAlphaOptions
    CPUManagerPolicyBetaOptions CRDObservedGenerationTracking CRIListStreaming CSIVolumeHealth ClientsAllowCARotation
    ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook ConcurrentWatchObjectDecode ConsistentListFromCacheSkipTimeoutFallback
    ConstrainedImpersonation ContainerCheckpoint ContainerStopSignals ContextualLogging CrossNamespaceVolumeDataSource
    DRAPartitionableDevicesType DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
    DeclarativeValidationBeta DefaultPodSysctls DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
    EmptyDirVolumeMode EnvFiles EtcdRangeStream EventedPLEG EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources
    ExtendWebSocketsToKubelet GRPCContainerProbeTLS GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
    H2CContainerProbe HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction ImageVolumeWithDigest
    InOrderInformersBatchProcess InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InPlacePodVerticalScalingMemoryBackedVolumes KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint
    KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions
    ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS MutablePVNodeAffinity
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NFTablesNetlink NativeHistograms
    NodeControllerLeaseCircuitBreaker NodeLifecycleConditions OpenAPIEnums PersistentVolumeClaimUnusedSinceTime
    PodAndContainerStatsFromCRI PodDeletionCost PodLevelResourceManagers PodLogsQuerySplitStreams
    PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets QOSReserved ReduceDefaultCrashLoopBackOffDecay
    ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
    ResourceHealthStatusMessage RotateKubeletServerCertificate RuntimeClassInImageCriApi
    ServiceAccountNodeAudienceRestriction ShardedListAndWatch SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA StaleControllerConsistencyJob
    StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet StatefulSetRecreateStrategy
    StatefulSetSemanticRevisionComparison StorageVersionAPI StorageVersionHash StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    TokenRequestServiceAccountUIDValidation TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UnlockWhileProcessingFIFO WatchList WatchListClient WatchListCompression WebhookRoundTripLoadBalancing
    WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown
    """.split()  # noqa: SIM905 - a hundred names read better as a paragraph
)


@dataclass(frozen=True, slots=True)
class GateChoice:
    """The gates in force, and those that were named but change nothing, with the reason."""

    features: FeatureGates
    moot: Mapping[str, str] = field(default_factory=dict)


def choose_gates(flags: Sequence[str], emulated: Sequence[str] = (), compatible: Sequence[str] = ()) -> GateChoice:
    """Read --feature-gates, --emulated-version and --min-compatibility-version; ConfigErrors lists what is refused."""
    _check_emulated(_kube_version("--emulated-version", emulated))
    oldest = _kube_version("--min-compatibility-version", compatible) or OLDEST_COMPATIBLE
    _check_compatible(oldest)
    asked = dict(assignments(*flags))
    own = {name: value for name, value in asked.items() if name not in _ELSEWHERE}
    if problems := [*_unknown(own)]:
        raise ConfigErrors(problems)
    if oldest == RELEASE:
        # The one gate whose default waits for every component of the control plane to know it.
        own.setdefault("DRAFractionalCapacityRange", own.get("DRAConsumableCapacity", True))
    features = FeatureGates(own)
    if problems := [*_lacking(features)]:
        raise ConfigErrors(problems)
    moot = {name: MOOT.get(name, "it belongs to another component") for name in asked if _is_moot(name)}
    return GateChoice(features, moot)


def _is_moot(name: str) -> bool:
    return name in MOOT or name in _ELSEWHERE


def _unknown(asked: Mapping[str, bool]) -> Iterator[ConfigError]:
    for name in asked:
        if name not in GATES and name not in GROUPS:
            hint = did_you_mean(name, [*GATES, *GROUPS, *_ELSEWHERE])
            yield ConfigError(FLAG, f"unrecognized feature gate: {name}", hint=hint)


def _lacking(features: FeatureGates) -> Iterator[ConfigError]:
    for name, what in LACKING.items():
        if features.enabled(name):
            text = f"cannot set feature gate {name} to true: moorage lacks {what}"
            yield ConfigError(FLAG, text, hint=f"leave it out, or add {name}=false")


def _kube_version(flag: str, written: Sequence[str]) -> str:
    version = ""
    for item in written:
        component, _, version = item.strip().rpartition("=")
        if component not in ("", COMPONENT):
            raise ConfigError(flag, f"component not registered: {component}", hint="the only component is kube")
        version = version.removeprefix("v")
        if not _VERSION.fullmatch(version):
            raise ConfigError(flag, f"{item!r} is not a version", hint=f"write {RELEASE} or kube={RELEASE}")
    return version


def _check_emulated(version: str) -> None:
    if version not in ("", RELEASE):
        text = f"cannot emulate {version}: moorage makes the decisions of {RELEASE} only"
        raise ConfigError("--emulated-version", text, hint=f"write {RELEASE}, or leave it out")


def _check_compatible(version: str) -> None:
    if not int(OLDEST_COMPATIBLE[2:]) - 2 <= int(version[2:]) <= int(RELEASE[2:]):
        text = f"{version} is not within 1.34..{RELEASE}"
        raise ConfigError("--min-compatibility-version", text, hint=f"write {OLDEST_COMPATIBLE} or {RELEASE}")
