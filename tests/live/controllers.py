"""kube-controller-manager beside the test's API server, with only those controllers that storage and devices need."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.support.control_plane import ControlPlane

PROGRAM: Final = "kube-controller-manager"
CONTROLLERS: Final = (
    "statefulset-controller",
    "persistentvolume-binder-controller",
    "ephemeral-volume-controller",
    "resourceclaim-controller",
    # Without these nothing that was claimed is ever gone: finalizers stay, and so does what a deleted pod owned.
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "garbage-collector-controller",
)


@contextmanager
def controller_manager(plane: ControlPlane, *controllers: str) -> Iterator[None]:
    """Run the controllers, or those named, for as long as the block lasts; if they end meanwhile, show their log."""
    process = plane.spawn(
        PROGRAM,
        f"--kubeconfig={plane.kubeconfig()}",
        f"--controllers={','.join(controllers or CONTROLLERS)}",
        f"--service-account-private-key-file={plane.folder / 'sa.key'}",
        f"--cert-dir={plane.folder / 'controller-certs'}",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        # Bindings that the PV controller missed an event about are looked at again soon.
        "--pvclaimbinder-sync-period=3s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the controllers ended by themselves:\n{plane.log(PROGRAM)}")
    finally:
        process.kill()
        process.wait()
