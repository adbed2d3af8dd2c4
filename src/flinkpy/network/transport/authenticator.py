"""Who may take part in the data plane: the one place for it.

Both ends of a connection prove that they know the cluster's secret, without sending it, before either of them does
anything for the other: nothing is unpickled, and no large frame is received, on a connection that did not pass.
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
    """Which end of a connection somebody is; part of every proof, so that none can be sent back to who made it."""

    PRODUCER = b"producer"
    CONSUMER = b"consumer"


@dataclass(frozen=True, slots=True)
class Introductions:
    """What both sides of one connection have said of themselves. A proof is about all of it.

    The nonces are fresh for every connection, so an earlier proof is worth nothing. The address stands for where the
    consumer wants to be: a process that passes everything on to another one's port is found out there.

    Attributes:
        version: of the protocol, as the producer chose it; `newest` and `oldest` are what the consumer offered.
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
        """The same bytes for equal introductions only: every field has its length before it."""
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
    """Thread: I/O. Must not block."""

    #: Whether a peer that passed is a member of the cluster, which may have this process run any code. Where it is not
    #: known to be, what it sends is looked at more closely.
    is_proof: bool

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        """This process's proof, in that role; at most 64 bytes."""
        ...

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        """Whether a peer in that role, at that numeric address, with that proof, may take part."""
        ...


class HmacAuthenticator:
    """Accepts who knows the cluster's secret.

    A proof is HMAC-SHA256 of the role and the introductions, and is compared in constant time.

    Args:
        key: derived from the secret for this purpose alone.
    """

    is_proof = True

    def __init__(self, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError("the key of the data plane has at least 32 bytes")
        self._key = key

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        message = b"flinkpy data plane " + role.value + b"\0" + introductions.as_bytes()
        return hmac.digest(self._key, message, "sha256")

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return hmac.compare_digest(self.proof(introductions, role), proof)

    def __repr__(self) -> str:
        return "HmacAuthenticator(****)"


class LoopbackAuthenticator:
    """Accepts peers on this host, whose users are trusted: for an environment without a cluster."""

    is_proof = False

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        return b""

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return is_loopback(peer_host)


class TrustedNetworkAuthenticator(LoopbackAuthenticator):
    """Accepts everyone: only for a network that nobody else can reach, and only where configured in so many words."""

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return True
