"""`moorage extender`: plugins for a kube-scheduler that is not Moorage."""

from typing import Annotated

import typer

from moorage.cli.shared import (
    ConfigOption,
    ContextOption,
    GatesOption,
    KubeconfigOption,
    PluginPaths,
    VerbosityOption,
    log_as_asked,
    policy_of,
)
from moorage.cli.starting import start_lightly

ProfileOption = Annotated[str, typer.Option("--profile", help="Which profile of the configuration to serve.")]
CertificateFile = Annotated[str, typer.Option("--tls-cert-file", metavar="FILE", help="Serve with TLS.")]
KeyFile = Annotated[str, typer.Option("--tls-private-key-file", metavar="FILE", help="The key of the certificate.")]
ClientAuthority = Annotated[
    str, typer.Option("--client-ca-file", metavar="FILE", help="Answer only clients with a certificate of this.")
]
AllowAnyone = Annotated[
    bool, typer.Option("--allow-anyone", help="Answer others on the network without any certificate.")
]
UrlOption = Annotated[
    str, typer.Option("--url", help="Under which address kube-scheduler finds it, for the stanza that is printed.")
]


def extender(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    plugin: PluginPaths = None,
    config: ConfigOption = None,
    profile: ProfileOption = "",
    address: Annotated[str, typer.Option("--address", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 is any.")] = 8890,
    tls_cert_file: CertificateFile = "",
    tls_private_key_file: KeyFile = "",
    client_ca_file: ClientAuthority = "",
    allow_anyone: AllowAnyone = False,
    url: UrlOption = "",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Serve plugins to a stock kube-scheduler, which asks them as an extender: filter, prioritize, preempt and bind.

    The stanza for kube-scheduler's configuration is printed. Only names travel: the extender follows the cluster
    itself. Plugins may take part in filtering, scoring and binding; others are refused, with the reason.
    """
    start_lightly()
    log_as_asked(verbosity)
    from moorage.common.errors import InputError
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.scheduler.extender_server.served import served_by
    from moorage.scheduler.extender_server.server import ExtenderOptions, run_extender
    from moorage.scheduler.framework.registry import Registry

    if not plugin:
        raise InputError("--plugin", "say what to serve", hint="--plugin my_package.spot:SpotOnly")
    named = Registry()
    for path in plugin:
        named.register_path(path)
    served = served_by(policy_of(config, plugin, feature_gates), [*named], profile)
    options = ExtenderOptions(
        address=address,
        port=port,
        cert_file=tls_cert_file,
        key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
        allow_anyone=allow_anyone,
        url=url,
    )
    options.check()
    raise typer.Exit(run_extender(served, options, load_connection(kubeconfig, context=context)))
