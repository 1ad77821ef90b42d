"""The child process that explains pods for `--explain-events`: it receives one request and sends one reply."""

import asyncio
import sys
from time import monotonic

import msgspec

from moorage.common.child_process import ParentChannel, lower_priority
from moorage.common.errors import MoorageError
from moorage.insight.explain.explain_events import ExplainRequest
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.text import change_line
from moorage.insight.snapshots.cluster_reader import ReadCluster, read_cluster
from moorage.insight.whatif.session import Session
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import to_documents


def main() -> int:
    """Reply to one request. Return 1 if the cluster cannot be read."""
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

    async def read() -> ReadCluster:
        async with ApiClient(load_connection(request.kubeconfig, request.master)) as client:
            # The scheduler's permissions may not include all kinds.
            return await read_cluster(client, needs_all=False)

    policy = request.load_policy()
    return Session(to_documents(asyncio.run(read()).contents, source="the cluster"), policy)


def explain_pods(session: Session, pods: tuple[str, ...], end: float) -> dict[str, str]:
    """Return the first change that helps, for each pod that has one. Stop at ``end`` (monotonic time)."""
    explanations: dict[str, str] = {}
    with session:
        for index, key in enumerate(pods):
            remaining_seconds = end - monotonic()
            if remaining_seconds <= 0:
                break
            try:
                explanation = explain_pod(session, key, seconds=remaining_seconds / (len(pods) - index))
            except MoorageError:
                continue  # it was deleted, or belongs to another scheduler now
            if explanation.changes:
                explanations[key] = f"It would fit: {change_line(explanation.changes[0])}"
    return explanations


if __name__ == "__main__":
    sys.exit(main())
