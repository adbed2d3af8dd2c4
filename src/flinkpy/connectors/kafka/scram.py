"""SCRAM, the client's half: proves to know a password without sending it (RFC 5802, as Kafka uses it)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from flinkpy.common.errors import KafkaError

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: More would be an attack on our processor.
MAX_ITERATIONS = 1_000_000


class ScramClient:
    """One conversation: `first` -> the server's answer -> `final` -> the server's answer -> `verify`."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str | None = None) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Raises: KafkaError: the answer is none to `first`."""
        told = _attributes(server_first)
        nonce, salt = told.get("r", ""), told.get("s", "")
        iterations = int(told["i"]) if told.get("i", "").isdigit() else 0
        if not nonce.startswith(self._nonce) or not 0 < iterations <= MAX_ITERATIONS:
            raise KafkaError("SCRAM: the broker's answer does not belong to this conversation")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, base64.b64decode(salt), iterations)
        without_proof = f"c=biws,r={nonce}"
        whole = ",".join((self._first_bare, server_first.decode(), without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), whole)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), whole)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
        return f"{without_proof},p={proof}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raises: KafkaError: the server does not know the password either."""
        told = _attributes(server_final)
        if not hmac.compare_digest(base64.b64decode(told.get("v", "")), self._signature):
            raise KafkaError(f"SCRAM: the broker did not prove who it is: {told.get('e', 'wrong signature')}")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._hash).digest()


def _attributes(message: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.decode().split(",") if "=" in part)
