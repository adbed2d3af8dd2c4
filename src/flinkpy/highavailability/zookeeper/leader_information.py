"""Encodes and decodes the node in which a leader publishes its address, as JSON. Pure."""

from __future__ import annotations

import json

from flinkpy.common.errors import HighAvailabilityError
from flinkpy.highavailability.leader_election import LeaderInformation

#: Longer data was not written by a leader, which writes an address and a token.
_MAX_BYTES = 4096


def encode(information: LeaderInformation) -> bytes:
    return json.dumps({"address": information.address, "fencing_token": information.fencing_token}).encode()


def decode(data: bytes, path: str) -> LeaderInformation:
    """Raises: HighAvailabilityError naming the node, if another system has written it."""
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has {len(data)} bytes")
        content = json.loads(data.decode())
        address, token = content["address"], content["fencing_token"]
        if not isinstance(address, str) or not isinstance(token, str) or not address:
            raise ValueError("address or token is missing")
        # Other characters cannot be sent: JSON may contain lone surrogates.
        if not (address + token).isascii() or not (address + token).isprintable():
            raise ValueError("the address or the token has invalid characters")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HighAvailabilityError(
            f"node {path} of ZooKeeper does not hold the address of a leader ({error}): is "
            "high-availability.cluster-id used by another system?",
            details={"path": path},
        ) from None
    return LeaderInformation(address, token)
