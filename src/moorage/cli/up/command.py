"""`moorage up`: a cluster on this machine in one command."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.shared import ConfigOption, GatesOption, PluginPaths, VerbosityOption, log_as_asked, policy_of
from moorage.cli.starting import start_lightly

ManifestFiles = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="FILE", help="Manifests to apply at the start; - is standard input."),
]
NodesOption = Annotated[int, typer.Option("--nodes", min=0, max=20_000, help="How many nodes there are.")]
ShapeOption = Annotated[
    str, typer.Option("--shape", metavar="cpu=8,memory=32Gi,pods=110,zones=3", help="What each of them has.")
]
DataOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="FOLDER", help="Keep the cluster here; else it is gone at the end.")
]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Where to write how to reach the cluster.")
]
NoScheduler = Annotated[bool, typer.Option("--no-scheduler", help="Leave scheduling to one that you run yourself.")]
LogOption = Annotated[
    Path | None, typer.Option("--decision-log", metavar="FILE", help="Write every decision there, a line of JSON each.")
]
ReloadOption = Annotated[
    bool, typer.Option("--reload/--no-reload", help="Take up plugins and configuration whenever they are saved.")
]
ForOption = Annotated[str, typer.Option("--for", metavar="DURATION", help="End after a while, such as 30s or 5m.")]


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
    lasts: ForOption = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to serve on; 0 is any.")] = 0,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve a page that shows the cluster.")] = True,
    ui_port: Annotated[int, typer.Option("--ui-port", min=0, max=65535, help="Its port; 0 is any.")] = 0,
    reload: ReloadOption = True,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Run a Kubernetes cluster on this machine: API server, controllers, fake nodes and the scheduler.

    kubectl and every other client can use it. Pods do not run anything: fake kubelets say that they do. How long they
    take to start, run and stop can be said by annotations such as moorage.io/run-for: 10s.
    """
    start_lightly()
    log_as_asked(verbosity)
    from moorage.cli.up.running import UpOptions, run_up
    from moorage.cli.up.screen import Screen
    from moorage.cluster import ClusterOptions, NodeShape, manifests_in
    from moorage.common.durations import parse_duration
    from moorage.scheduler.daemon.gates import choose_gates

    load = None if no_scheduler else partial(policy_of, config, plugin, feature_gates)
    features, manifests = choose_gates(feature_gates or ()).features, manifests_in(*file or ())
    policy, definitions = None if load is None else load(), tuple(each for each in manifests if each.is_definition)
    options = UpOptions(
        cluster=ClusterOptions(
            nodes, NodeShape.parse(shape), policy=policy, definitions=definitions, features=features
        ),
        manifests=tuple(manifest for manifest in manifests if not manifest.is_definition),
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        port=port,
        seconds=parse_duration(lasts, where="--for") if lasts else None,
        page_port=ui_port if ui else None,
        decision_log=decision_log,
        config=config,
        plugins=tuple(plugin or ()),
        load_policy=load if reload else None,
    )
    raise typer.Exit(run_up(options, Screen()))
