"""A pod in the queue, as a QueueSort plugin sees it."""

from typing import Protocol

from moorage.kube.api.pod import Pod


class QueuedPod(Protocol):
    """A pod that waits for its turn, with the history of its attempts."""

    @property
    def pod(self) -> Pod:
        """The pod; of a group, one of its pods."""
        ...

    @property
    def priority(self) -> int:
        """Its priority; of a group, that of the group."""
        ...

    @property
    def timestamp(self) -> float:
        """When it was last queued after a failure, or first; moves between queues do not change it."""
        ...

    @property
    def initial_attempt_timestamp(self) -> float | None:
        """When it was first ready to be tried, whatever has happened since."""
        ...

    @property
    def attempts(self) -> int:
        """How often it has been tried."""
        ...
