"""A remote input channel and its credits, without a connection."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import PartitionConnectionError
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.credit import CreditManager, Grant
from flinkpy.network.input_channel import RequestBackoff
from flinkpy.network.input_gate import InputGate
from flinkpy.network.remote_input_channel import PartitionRequestClient, RemoteInputChannel

from .network_fakes import UNIT, ManualTimers


class Client:
    verifies_membership = True

    def __init__(self) -> None:
        self.closed: list[int] = []

    def send_grant(self, channel_id: int, grant: Grant) -> None:
        return

    def send_reclaim(self, channel_id: int, keep: int) -> None:
        return

    def close_channel(self, channel_id: int) -> None:
        self.closed.append(channel_id)


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_channel_closed_during_a_repeated_request_releases_everything(is_reached: bool) -> None:
    """The task closes its gate while the I/O thread is about to repeat the request."""
    pool = NetworkBufferPool(100 * UNIT, UNIT)
    gate = InputGate("consumer", lambda error: None, pool.create_local_pool("gate", 2))
    assert gate.pool is not None
    client = Client()

    def connect(
        channel: RemoteInputChannel, subpartition_index: int, initial: Grant
    ) -> tuple[PartitionRequestClient, int]:
        gate.close()
        if not is_reached:
            raise PartitionConnectionError("nobody there")
        return client, 5

    channel = RemoteInputChannel(
        gate,
        0,
        "p",
        RequestBackoff(100, 400),
        ManualTimers(),
        subpartition_index=0,
        credits=CreditManager(gate.pool, 1, 2),
        connect=connect,
    )
    # The closed gate does not contain this channel: `close` ran before there was anything to release.
    channel._is_closed = True
    channel.request_subpartition()

    assert pool.used == 0
    assert client.closed == ([5] if is_reached else [])
