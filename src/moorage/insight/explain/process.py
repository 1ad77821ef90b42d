"""The process that explains pods for `--explain-events`: a request on standard input, sentences on standard output."""

import asyncio
import sys
from time import monotonic

import msgspec

from moorage.common.errors import MoorageError
from moorage.insight.explain.explain import explain_pod
from moorage.insight.explain.in_scheduler import ExplainRequest
from moorage.insight.explain.text import change_line
from moorage.insight.whatif.reading import ReadCluster, read_cluster
from moorage.insight.whatif.session import Session
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import documents_of
from moorage.scheduler.wiring.policy import collect_plugins, load_policy


def main() -> int:
    """Answer one request; 1 if the cluster cannot be read."""
    try:
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=ExplainRequest)
        sys.stdout.buffer.write(msgspec.json.encode(answers(request)))
    except MoorageError as error:
        sys.stderr.write(f"pending pods cannot be explained: {error}\n")
        return 1
    return 0


def answers(request: ExplainRequest) -> dict[str, str]:
    """Explain the pods, as many as there is time for."""
    end = monotonic() + request.seconds
    return explained(open_session(request), request.pods, end)


def open_session(request: ExplainRequest) -> Session:
    """Read the cluster as it is now, and open a session on it under the scheduler's own policy."""
    gates = FeatureGates(request.gates, release=request.release)
    registry = collect_plugins(paths=request.plugins)
    policy = load_policy(registry, msgspec.json.encode(request.config).decode(), features=gates)
    contents = asyncio.run(_read(request)).contents
    return Session(documents_of(contents, source="the cluster"), policy)


async def _read(request: ExplainRequest) -> ReadCluster:
    async with ApiClient(load_connection(request.kubeconfig, request.master)) as client:
        # A scheduler may list less than a person who asks.
        return await read_cluster(client, needs_all=False)


def explained(session: Session, pods: tuple[str, ...], end: float) -> dict[str, str]:
    """Say for each pod what would help first; pods that are gone, or that nothing helps, get no sentence."""
    found: dict[str, str] = {}
    with session:
        for place, key in enumerate(pods):
            left = end - monotonic()
            if left <= 0:
                break
            try:
                explanation = explain_pod(session, key, seconds=left / (len(pods) - place))
            except MoorageError:
                continue  # it is gone, or another scheduler's by now
            if explanation.changes:
                found[key] = f"It would fit: {change_line(explanation.changes[0])}"
    return found


if __name__ == "__main__":
    sys.exit(main())
