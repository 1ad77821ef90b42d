"""`moorage up`: run a local cluster."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.options import (
    ConfigOption,
    GatesOption,
    PluginPaths,
    PortOption,
    VerbosityOption,
    configure_log_level,
    load_policy,
)
from moorage.cli.startup import start_lightly
from moorage.common.durations import parse_duration

ManifestFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="Objects to create in the cluster, YAML or JSON; - reads standard input."
    ),
]
NodesOption = Annotated[int, typer.Option("--nodes", min=0, max=20_000, help="Number of fake nodes.")]
ShapeOption = Annotated[
    str, typer.Option("--shape", metavar="cpu=8,memory=32Gi,pods=110,zones=3", help="Size of each node.")
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Persist the cluster in this folder (default: in memory only)."),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="File to write the kubeconfig to (default: a temporary file)."),
]
NoScheduler = Annotated[
    bool, typer.Option("--no-scheduler", help="Do not start a scheduler; run your own with the kubeconfig.")
]
LogOption = Annotated[
    Path | None,
    typer.Option("--decision-log", metavar="FILE", help="Write every decision to this file, as JSON lines."),
]
ReloadOption = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Reload plugins and configuration when their files change.")
]
ForOption = Annotated[
    str,
    typer.Option(
        "--for", metavar="DURATION", help="Stop after this time, such as 30s or 5m (default: run until Ctrl-C)."
    ),
]


def up(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    nodes: NodesOption = 100,
    shape: ShapeOption = "",
    config: ConfigOption = None,
    plugin: PluginPaths = None,
    data_dir: DataOption = None,
    kubeconfig: KubeconfigOption = None,
    no_scheduler: NoScheduler = False,
    file: ManifestFiles = None,
    decision_log: LogOption = None,
    for_: ForOption = "",
    port: PortOption = 0,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve a web page that shows the cluster.")] = True,
    ui_port: Annotated[
        int,
        typer.Option("--ui-port", metavar="PORT", min=0, max=65535, help="Port of the web page; 0 picks a free one."),
    ] = 0,
    reload: ReloadOption = True,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Run a local Kubernetes cluster with fake nodes.

    The cluster consists of an API server, controllers, fake kubelets and the scheduler. kubectl and other clients can
    use it. Pods run no containers; fake kubelets only report their status. Annotations such as moorage.io/run-for: 10s
    set how long pods take to start, run and stop.
    """
    start_lightly()
    configure_log_level(verbosity)
    from moorage.cli.up.running import UpOptions, run_up
    from moorage.cli.up.screen import Screen
    from moorage.cluster import ClusterOptions, NodeShape, manifests_in
    from moorage.scheduler.daemon.feature_gates.gates import choose_gates

    load = None if no_scheduler else partial(load_policy, config, plugin, feature_gates)
    features, manifests = choose_gates(feature_gates or ()).features, manifests_in(*file or ())
    policy, definitions = None if load is None else load(), tuple(item for item in manifests if item.is_definition)
    options = UpOptions(
        cluster=ClusterOptions(
            nodes, NodeShape.parse(shape), policy=policy, definitions=definitions, features=features
        ),
        manifests=tuple(manifest for manifest in manifests if not manifest.is_definition),
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        port=port,
        seconds=parse_duration(for_, where="--for") if for_ else None,
        page_port=ui_port if ui else None,
        decision_log=decision_log,
        config=config,
        plugins=tuple(plugin or ()),
        load_policy=load if reload else None,
    )
    raise typer.Exit(run_up(options, Screen()))
