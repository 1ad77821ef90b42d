"""The process that explains pods for `--explain-events`: a request on standard input, sentences on standard output."""

import asyncio
import sys
from time import monotonic

import msgspec

from moorage.app.explain_events import ExplainRequest
from moorage.assembly.policy import collect_plugins, load_policy
from moorage.client.kubeconfig import load_connection
from moorage.client.rest import ApiClient
from moorage.errors import MoorageError
from moorage.features import FeatureGates
from moorage.simulator.documents import documents_of
from moorage.whatif.reading import ReadCluster, read_cluster
from moorage.whatif.session import Session
from moorage.why.explain import explain_pod
from moorage.why.page import change_line


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
