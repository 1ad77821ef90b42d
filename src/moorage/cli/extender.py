"""`moorage extender`: serve plugins to a stock kube-scheduler."""

from typing import Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly

Profile = Annotated[str, typer.Option("--profile", metavar="NAME", help="Profile of the configuration to serve.")]
CertificateFile = Annotated[
    str, typer.Option("--tls-cert-file", metavar="FILE", help="Certificate to serve HTTPS with.")
]
KeyFile = Annotated[str, typer.Option("--tls-private-key-file", metavar="FILE", help="Private key of the certificate.")]
ClientAuthority = Annotated[
    str, typer.Option("--client-ca-file", metavar="FILE", help="Require client certificates signed by this CA.")
]
AllowAnyone = Annotated[
    bool, typer.Option("--allow-anyone", help="Accept clients from the network without a certificate.")
]
Url = Annotated[
    str,
    typer.Option(
        "--url", metavar="URL", help="URL of this extender in the printed section (default: from --address and --port)."
    ),
]


def extender(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    plugin: options.Plugins = None,
    config: options.Config = None,
    profile: Profile = "",
    address: options.Address = "127.0.0.1",
    port: options.Port = 8890,
    tls_cert_file: CertificateFile = "",
    tls_private_key_file: KeyFile = "",
    client_ca_file: ClientAuthority = "",
    allow_anyone: AllowAnyone = False,
    url: Url = "",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: options.Verbosity = None,
) -> None:
    """Serve plugins to a stock kube-scheduler.

    kube-scheduler calls them as an extender (filter, prioritize, preempt, bind). The command prints the section for
    kube-scheduler's configuration. Requests contain only node names: the extender watches the cluster itself. Plugins
    may filter, score and bind. Plugins with other extension points are rejected.
    """
    start_lightly()
    options.configure_log_level(verbosity)
    from moorage.common.errors import InputError
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.scheduler.extender_server.served import select_served
    from moorage.scheduler.extender_server.server import ExtenderOptions, run_extender
    from moorage.scheduler.framework.registry import Registry

    if not plugin:
        raise InputError("--plugin", "no plugin to serve", hint="write --plugin my_package.spot:SpotOnly")
    requested = Registry()
    for path in plugin:
        requested.register_path(path)
    gates = options.GateFlags(feature_gates, emulated_version)
    served = select_served(options.load_policy(config, plugin, gates), [*requested], profile)
    settings = ExtenderOptions(
        address=address,
        port=port,
        cert_file=tls_cert_file,
        key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
        allow_anyone=allow_anyone,
        url=url,
    )
    settings.check()
    raise typer.Exit(run_extender(served, settings, load_connection(kubeconfig, context=context)))
