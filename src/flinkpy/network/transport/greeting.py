"""The first frames of a data connection: HELLO, CHALLENGE, PROOF; see `frames`.

They come from peers that are not authenticated, so their contents are checked before they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import BrokenError
from flinkpy.network.transport import frames
from flinkpy.network.transport.authenticator import Introductions


@dataclass(frozen=True, slots=True)
class Hello:
    """The consumer's first frame."""

    newest: int
    oldest: int
    nonce: bytes
    consumer_id: str
    address: str

    def to_frame(self) -> bytes:
        name, address = self.consumer_id.encode(), self.address.encode()
        body = self.nonce + name + address
        return frames.frame(frames.HELLO, a=self.newest, b=self.oldest, c=len(name), d=len(address), body=body)

    @classmethod
    def of_frame(cls, newest: int, oldest: int, name_bytes: int, address_bytes: int, body: bytes) -> Hello:
        """Raises: BrokenError."""
        nonce, name, address = _cut(body, frames.NONCE_BYTES, name_bytes, address_bytes)
        return cls(newest, oldest, nonce, _text(name), _text(address))

    def version(self) -> int | None:
        """Returns the newest version that both sides support, or None if there is none."""
        version = min(self.newest, frames.PROTOCOL_VERSION)
        return version if version >= max(self.oldest, frames.OLDEST_PROTOCOL_VERSION) else None


@dataclass(frozen=True, slots=True)
class Challenge:
    """The producer's answer."""

    version: int
    nonce: bytes
    proof: bytes
    producer_id: str
    #: The size of the segments in which the cost of a buffer is counted.
    segment_size_bytes: int

    def to_frame(self) -> bytes:
        name = self.producer_id.encode()
        return frames.frame(
            frames.CHALLENGE,
            a=self.version,
            b=len(self.proof),
            c=len(name),
            d=self.segment_size_bytes,
            body=self.nonce + self.proof + name,
        )

    @classmethod
    def of_frame(
        cls, version: int, proof_bytes: int, name_bytes: int, segment_size_bytes: int, body: bytes
    ) -> Challenge:
        """Raises: BrokenError."""
        nonce, proof, name = _cut(body, frames.NONCE_BYTES, proof_bytes, name_bytes)
        return cls(version, nonce, proof, _text(name), segment_size_bytes)


def proof_frame(proof: bytes) -> bytes:
    """Returns the consumer's last frame of the greeting."""
    return frames.frame(frames.PROOF, b=len(proof), body=proof)


def proof_of_frame(proof_bytes: int, body: bytes) -> bytes:
    """Raises: BrokenError."""
    return _cut(body, proof_bytes)[0]


def introductions(hello: Hello, version: int, producer_id: str, producer_nonce: bytes) -> Introductions:
    return Introductions(
        version=version,
        newest=hello.newest,
        oldest=hello.oldest,
        address=hello.address,
        consumer_id=hello.consumer_id,
        consumer_nonce=hello.nonce,
        producer_id=producer_id,
        producer_nonce=producer_nonce,
    )


def _cut(body: bytes, *sizes: int) -> list[bytes]:
    """Cuts a body into fields of these sizes. The body must have their total size, padded to a multiple of eight."""
    size = sum(sizes)
    if len(body) != size + -size % 8 or any(size > frames.MAX_NAME_BYTES for size in sizes):
        raise BrokenError(f"a greeting of {len(body)} bytes declares {size} bytes")
    fields = []
    for length in sizes:
        fields.append(body[:length])
        body = body[length:]
    return fields


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BrokenError(f"a name in a greeting is not valid UTF-8: {error}") from error
