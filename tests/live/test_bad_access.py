"""An unreachable, untrusted or forbidden server: one message with the fix, and never a traceback."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import SchedulerProcess, scheduler
from tests.support.certificates import Authority
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Story], None]

LIMITED: Final = "limited"
ROLE: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDING: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ALL_BUT_NODES: Final[list[dict[str, Any]]] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "patch", "update", "delete", "get"]},
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["apps", "policy", "storage.k8s.io", "resource.k8s.io"],
        "resources": ["*"],
        "verbs": ["list", "watch"],
    },
]


def changed(plane: ControlPlane, directory: Path, **cluster: Any) -> Path:
    """Write a kubeconfig that differs from a valid one in its cluster section."""
    content = yaml.safe_load(plane.kubeconfig().read_text())
    content["clusters"][0]["cluster"]["certificate-authority"] = str(plane.directory / "certs" / "apiserver.crt")
    content["clusters"][0]["cluster"] |= cluster
    path = directory / "changed.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def test_unreachable_server_is_retried(plane: ControlPlane, tmp_path: Path) -> None:
    address = f"https://127.0.0.1:{free_ports(1)[0]}"
    with scheduler(changed(plane, tmp_path, server=address)) as process:
        asyncio.run(process.logged("waiting for the API server"))
        assert address.removeprefix("https://") in process.log
        assert process.is_running
        assert process.stop() == 0
        assert "Traceback" not in process.log


def test_certificate_of_another_ca_is_rejected(plane: ControlPlane, tmp_path: Path) -> None:
    other = {"certificate-authority": str(Authority.create_in(tmp_path / "other").file)}
    with scheduler(changed(plane, tmp_path, **other)) as process:
        assert wait_for_exit_with(process, "is not trusted") == 1


def test_expired_token_is_reported(plane: ControlPlane) -> None:
    plane.tokens["expired"] = signed_token(plane, expired_for=timedelta(minutes=1))
    with scheduler(plane.kubeconfig("expired")) as process:
        assert wait_for_exit_with(process, "the server rejected the credentials") == 1


def signed_token(plane: ControlPlane, *, expired_for: timedelta) -> str:
    """Sign an expired token as the API server would."""
    end = datetime.now(UTC) - expired_for
    claims = {
        "iss": "https://kubernetes.default.svc",
        "aud": ["https://kubernetes.default.svc"],
        "sub": "system:serviceaccount:default:default",
        "iat": int((end - timedelta(hours=1)).timestamp()),
        "exp": int(end.timestamp()),
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "default", "uid": "1"}},
    }
    text = b".".join(encoded(part) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    key = serialization.load_pem_private_key((plane.directory / "sa.key").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    signature = urlsafe_b64encode(key.sign(text, padding.PKCS1v15(), hashes.SHA256())).rstrip(b"=")
    return b".".join((text, signature)).decode()


def encoded(part: dict[str, Any]) -> bytes:
    return urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=")


def wait_for_exit_with(process: SchedulerProcess, message: str) -> int:
    """Wait for the exit; return the exit code."""
    code = process.wait()
    assert message in process.log
    assert "Traceback" not in process.log
    return code


def test_missing_permission_is_named_and_retried(plane: ControlPlane, live: Live) -> None:
    """Pods are bound as soon as the permission exists, without a restart."""

    async def story(cluster: LiveCluster) -> None:
        token = await cluster.service_account_token(LIMITED)
        plane.tokens[LIMITED] = token
        await cluster.create(ROLE, {"metadata": {"name": LIMITED}, "rules": ALL_BUT_NODES})
        subject = {"kind": "ServiceAccount", "name": LIMITED, "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": LIMITED}
        await cluster.create(BINDING, {"metadata": {"name": LIMITED}, "subjects": [subject], "roleRef": reference})
        await cluster.add_nodes("n1")
        await cluster.add_pods("p1")
        with scheduler(plane.kubeconfig(LIMITED)) as process:
            await process.logged('allow verb "list" on resource "nodes" of apiGroup ""')
            everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
            await cluster.merge(f"{ROLE}/{LIMITED}", {"rules": everything})
            await cluster.wait_for("the pod is bound", bound)
            assert "Traceback" not in process.log

    live(story)
