"""What a leader publishes of itself: a node that lives as long as its session, as JSON. Pure."""

from __future__ import annotations

import json

from flinkpy.common.errors import HighAvailabilityError
from flinkpy.highavailability.leader_election import LeaderInformation

#: An address and a token; anything longer was not written by a leader.
_MAX_BYTES = 4096


def encode(information: LeaderInformation) -> bytes:
    return json.dumps({"address": information.address, "fencing_token": information.fencing_token}).encode()


def decode(data: bytes, path: str) -> LeaderInformation:
    """Raises: HighAvailabilityError naming the node, where somebody else has written it."""
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has {len(data)} bytes")
        content = json.loads(data.decode())
        address, token = content["address"], content["fencing_token"]
        if not isinstance(address, str) or not isinstance(token, str) or not address:
            raise ValueError("address or token is missing")
        # Other characters could not be sent: JSON may hold halves of surrogate pairs.
        if not (address + token).isascii() or not (address + token).isprintable():
            raise ValueError("address or token has characters that none has")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HighAvailabilityError(
            f"node {path} of ZooKeeper holds something else than the address of a leader ({error}): is "
            "high-availability.cluster-id used by another system?",
            details={"path": path},
        ) from None
    return LeaderInformation(address, token)
