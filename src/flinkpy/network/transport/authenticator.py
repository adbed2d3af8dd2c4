"""Who may take part in the data plane: the one place for it.

Both ends of a connection call their authenticator on the other, each with a fresh nonce, so a secret can be proved
without being sent. Nothing is unpickled on a connection that did not pass.
"""

from __future__ import annotations

from typing import Protocol

from flinkpy.common.addresses import is_loopback


class DataPlaneAuthenticator(Protocol):
    """Thread: I/O. Must not block."""

    def token(self, nonce: bytes, *, is_consumer: bool) -> bytes:
        """This process's proof for the peer's `nonce`; at most 1024 bytes. `is_consumer`: in which role we prove."""
        ...

    def accepts(self, peer_host: str, nonce: bytes, token: bytes, *, is_consumer: bool) -> bool:
        """Whether a peer in that role, at that numeric address, with that answer to our `nonce`, may take part."""
        ...


class LoopbackAuthenticator:
    """Accepts peers on this host, whose users are trusted; the default while every server binds loopback."""

    def token(self, nonce: bytes, *, is_consumer: bool) -> bytes:
        return b""

    def accepts(self, peer_host: str, nonce: bytes, token: bytes, *, is_consumer: bool) -> bool:
        return is_loopback(peer_host)


class TrustedNetworkAuthenticator(LoopbackAuthenticator):
    """Accepts everyone: only for a network that nobody else can reach, and only where configured in so many words."""

    def accepts(self, peer_host: str, nonce: bytes, token: bytes, *, is_consumer: bool) -> bool:
        return True
