"""Authentication of the data plane.

Both ends of a connection prove that they know the secret of the cluster, without sending it, before either of them does
anything for the other. Nothing is unpickled, and no large frame is received, on a connection that is not authenticated.
"""

from __future__ import annotations

import enum
import hmac
import struct
from dataclasses import dataclass
from typing import Protocol

from flinkpy.common.addresses import is_loopback

_LENGTH = struct.Struct("<I")


class PeerRole(enum.Enum):
    """The end of a connection. Every proof contains it, so that a proof cannot be sent back to its author."""

    PRODUCER = b"producer"
    CONSUMER = b"consumer"


@dataclass(frozen=True, slots=True)
class Introductions:
    """The data that both sides of a connection have sent about themselves. A proof covers all of it.

    The nonces are new for every connection, so an earlier proof is worthless. The introductions contain the address
    that the consumer wants to reach, so a process that relays the data to the port of another process is detected.

    Attributes:
        version: the protocol version that the producer chose.
        newest, oldest: the range of versions that the consumer offered.
        address: the data address that the consumer connected to.
    """

    version: int
    newest: int
    oldest: int
    address: str
    consumer_id: str
    consumer_nonce: bytes
    producer_id: str
    producer_nonce: bytes

    def as_bytes(self) -> bytes:
        """Returns bytes that differ for different introductions: every field is preceded by its length."""
        fields = (
            struct.pack("<III", self.version, self.newest, self.oldest),
            self.address.encode(),
            self.consumer_id.encode(),
            self.consumer_nonce,
            self.producer_id.encode(),
            self.producer_nonce,
        )
        return b"".join(_LENGTH.pack(len(field)) + field for field in fields)


class DataPlaneAuthenticator(Protocol):
    """Decides which peers may take part in the data plane. Thread: I/O. Must not block."""

    #: True if an accepted peer is known to be a member of the cluster, which may run any code in this process. Data of
    #: other peers is checked more closely.
    verifies_membership: bool

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        """Returns this process's proof in that role, at most 64 bytes."""
        ...

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        """True if a peer with this role, numeric address and proof may take part."""
        ...


class HmacAuthenticator:
    """Accepts peers that know the secret of the cluster.

    A proof is the HMAC-SHA256 of the role and the introductions. Proofs are compared in constant time.

    Args:
        key: derived from the secret for this purpose only.
    """

    verifies_membership = True

    def __init__(self, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError(f"the key of the data plane has {len(key)} bytes; it needs at least 32 bytes")
        self._key = key

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        message = b"flinkpy data plane " + role.value + b"\0" + introductions.as_bytes()
        return hmac.digest(self._key, message, "sha256")

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return hmac.compare_digest(self.proof(introductions, role), proof)

    def __repr__(self) -> str:
        return "HmacAuthenticator(****)"


class LoopbackAuthenticator:
    """Accepts peers on this host, and trusts all its users. Used by environments without a cluster."""

    verifies_membership = False

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        return b""

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return is_loopback(peer_host)


class TrustedNetworkAuthenticator(LoopbackAuthenticator):
    """Accepts every peer. Only for networks that outsiders cannot reach, and only if configured explicitly."""

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return True
