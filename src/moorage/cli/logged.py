"""`moorage explain --decision-log`: what was decided on a pod, attempt by attempt."""

import sys
from pathlib import Path

import typer


def explain_logged(path: Path, wanted: str, namespace: str, *, as_json: bool) -> None:
    """Print the attempts of a pod; InputError if the log knows no such pod."""
    from moorage.cluster import history_lines
    from moorage.common.errors import InputError, did_you_mean
    from moorage.scheduler.decisions.decision import to_json
    from moorage.scheduler.decisions.decision_log import read_log

    key = wanted.removeprefix("pod/")
    key = key if "/" in key else f"{namespace}/{key}"
    lines = list(read_log(path))
    attempts = [line for line in lines if line.pod == key]
    if not attempts:
        hint = did_you_mean(key, {line.pod for line in lines}) or "NAMESPACE/NAME names a pod of another namespace"
        raise InputError(str(path), f"nothing was decided on a pod named {key}", hint=hint)
    if as_json:
        sys.stdout.buffer.write(to_json(attempts, indent=2) + b"\n")
        return
    for line in history_lines(key, attempts):
        typer.echo(line)
