"""The gates of Kubernetes 1.37 that belong to other components than a scheduler."""

from typing import Final

#: Those that may be set either way.
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

#: Those that have graduated and are on for ever.
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

#: Those that are off for ever.
LOCKED_OFF: Final = frozenset(
    {
        "AllowOverwriteTerminationGracePeriodSeconds",
        "DeclarativeValidationTakeover",
        "GitRepoVolumeDriver",
        "SeparateCacheWatchRPC",
    }
)

ELSEWHERE: Final = FREE | LOCKED_ON | LOCKED_OFF
