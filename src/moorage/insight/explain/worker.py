"""The child process that explains pods for `--explain-events`: it receives one request and sends one reply."""

import asyncio
import sys
from time import monotonic

import msgspec

from moorage.common.child_process import ParentChannel, lower_priority
from moorage.common.errors import MoorageError
from moorage.insight.explain.in_scheduler import ExplainRequest
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.text import change_line
from moorage.insight.snapshots.cluster_reader import ReadCluster, read_cluster
from moorage.insight.whatif.session import Session
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import documents_of
from moorage.scheduler.wiring.policy import collect_plugins, load_policy


def main() -> int:
    """Reply to one request; return 1 if the cluster cannot be read."""
    lower_priority()
    channel = ParentChannel()
    request = channel.receive(msgspec.msgpack.Decoder(ExplainRequest))
    if request is None:
        return 0
    try:
        end = monotonic() + request.seconds
        channel.send(explain_pods(open_session(request), request.pods, end))
    except MoorageError as error:
        sys.stderr.write(f"pending pods cannot be explained: {error}\n")
        return 1
    return 0


def open_session(request: ExplainRequest) -> Session:
    """Read the cluster, and open a session on it with the policy of the scheduler."""
    gates = FeatureGates(request.gates, release=request.release)
    registry = collect_plugins(paths=request.plugins)
    policy = load_policy(registry, msgspec.json.encode(request.config).decode(), features=gates)
    contents = asyncio.run(_read(request)).contents
    return Session(documents_of(contents, source="the cluster"), policy)


async def _read(request: ExplainRequest) -> ReadCluster:
    async with ApiClient(load_connection(request.kubeconfig, request.master)) as client:
        # The scheduler's permissions may not include all kinds.
        return await read_cluster(client, needs_all=False)


def explain_pods(session: Session, pods: tuple[str, ...], end: float) -> dict[str, str]:
    """Return the first change that helps, for each pod that has one; stop at ``end`` (monotonic time)."""
    explanations: dict[str, str] = {}
    with session:
        for index, key in enumerate(pods):
            remaining = end - monotonic()
            if remaining <= 0:
                break
            try:
                explanation = explain_pod(session, key, seconds=remaining / (len(pods) - index))
            except MoorageError:
                continue  # it was deleted, or belongs to another scheduler now
            if explanation.changes:
                explanations[key] = f"It would fit: {change_line(explanation.changes[0])}"
    return explanations


if __name__ == "__main__":
    sys.exit(main())
