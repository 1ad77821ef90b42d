"""`moorage up`: run a local cluster."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly

ManifestFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Objects to create in the cluster, YAML or JSON; - reads standard input; may be repeated. "
        "Missing namespaces of objects, and missing ReplicaSets and StatefulSets that own pods, are also created.",
    ),
]
NodeCount = Annotated[
    int,
    typer.Option("--nodes", metavar="NUMBER", parser=options.number(0, 20_000), help="Number of fake nodes."),
]
Shape = Annotated[
    str, typer.Option("--shape", metavar="SHAPE", help="Node size, such as cpu=8,memory=32Gi,pods=110,zones=3.")
]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Directory that stores the cluster (default: in memory only)."),
]
KubeconfigOutput = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="File to write the kubeconfig to (default: a temporary file)."),
]
NoScheduler = Annotated[
    bool, typer.Option("--no-scheduler", help="Do not start a scheduler; run your own with the kubeconfig.")
]
LogOutput = Annotated[
    Path | None,
    typer.Option("--decision-log", metavar="FILE", help="Write every decision to this file, as JSON lines."),
]
Reload = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Reload plugins and configuration when their files change.")
]


def up(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    nodes: NodeCount = 100,
    shape: Shape = "",
    config: options.Config = None,
    plugin: options.Plugins = None,
    plugin_timeout: options.PluginTimeout = "",
    data_dir: DataDirectory = None,
    kubeconfig: KubeconfigOutput = None,
    no_scheduler: NoScheduler = False,
    file: ManifestFiles = None,
    decision_log: LogOutput = None,
    for_: options.RunFor = "",
    port: options.Port = 0,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve a web page that shows the cluster.")] = True,
    ui_port: Annotated[
        int,
        typer.Option(
            "--ui-port",
            metavar="PORT",
            parser=options.number(0, 65535),
            help="Port of the web page; 0 picks a free one.",
        ),
    ] = 0,
    reload: Reload = True,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    min_compatibility_version: options.MinCompatibilityVersion = "",
    verbosity: options.Verbosity = None,
) -> None:
    """Run a local Kubernetes cluster with fake nodes.

    The cluster consists of an API server, controllers, fake kubelets and the scheduler. kubectl and other clients can
    use it. Fake kubelets report the status of pods but run no containers. Annotations set how long pods take to
    start, run and stop, for example moorage.io/run-for: 10s.
    """
    start_lightly()
    options.configure_log_level(verbosity)
    from moorage.cli.up.running import UpOptions, run_up
    from moorage.cli.up.screen import Screen
    from moorage.cluster import ClusterOptions, NodeShape, create_absent, read_manifests

    gates = options.GateFlags(feature_gates, emulated_version, min_compatibility_version)
    load = None if no_scheduler else partial(options.load_policy, config, plugin, gates, plugin_timeout)
    features, manifests = gates.choose(), read_manifests(*file or ())
    policy = None if load is None else load()
    created = create_absent(manifests)
    definitions = tuple(item for item in manifests if item.kind == "CustomResourceDefinition")
    settings = UpOptions(
        cluster=ClusterOptions(
            nodes, NodeShape.parse(shape), policy=policy, definitions=definitions, features=features
        ),
        manifests=(*(manifest for manifest in manifests if manifest not in definitions), *created),
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        port=port,
        seconds=options.parse_seconds(for_, "--for"),
        page_port=ui_port if ui else None,
        decision_log=decision_log,
        config=config,
        plugins=tuple(plugin or ()),
        load_policy=load if reload else None,
    )
    if created:
        names = ", ".join(
            f"{item.content['metadata']['namespace']}/{item.content['metadata']['name']}" for item in created
        )
        options.print_note(f"created ReplicaSets that pods refer to, from these pods: {names}", quiet=False)
    raise typer.Exit(run_up(settings, Screen()))
