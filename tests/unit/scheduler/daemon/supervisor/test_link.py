"""Messages between supervisor and scheduler."""

import asyncio
import socket

from moorage.kube.client.leader import LeaseSettings
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.scheduler.daemon.supervisor.link import Link, Setup, Stop

SETUP = Setup(
    serving=ServingOptions("127.0.0.1", 10259),
    authentication=AuthenticationOptions(),
    authorization=AuthorizationOptions(),
    stuck_seconds=60.0,
    lease=LeaseSettings("me"),
)


def test_messages_arrive_in_order_and_an_end_is_an_end() -> None:
    async def main() -> list[object]:
        sending_socket, receiving_socket = socket.socketpair()
        sender, receiver = await Link.over(sending_socket), await Link.over(receiving_socket)
        sender.send(SETUP)
        sender.send(Stop("SIGTERM"))
        sender.close()
        messages: list[object] = [message async for message in receiver.messages()]
        receiver.close()
        await asyncio.sleep(0)
        return messages

    assert asyncio.run(main()) == [SETUP, Stop("SIGTERM")]
