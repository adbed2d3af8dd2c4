"""StartCursor, StopCursor and RangeGenerator: where reading begins and ends, and which keys are read.

Source: org.apache.flink.connector.pulsar.source.enumerator.{cursor.StartCursor,cursor.StopCursor,
topic.range.FixedKeysRangeGenerator}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.connectors.pulsar.message_id import PulsarMessageId

if TYPE_CHECKING:
    from flinkpy.connectors.pulsar.client import PulsarMessage

#: The number of key hashes in Pulsar.
RANGE_SIZE = 65_536
_NO_KEY = b"NONE_KEY"


@dataclass(frozen=True)
class StartPosition:
    """The position of a StartCursor.

    Attributes:
        kind: earliest, latest, message_id or publish_time.
        timestamp: milliseconds since the epoch, for publish_time.
    """

    kind: str
    message_id: PulsarMessageId | None = None
    is_inclusive: bool = True
    timestamp: int | None = None


@dataclass(frozen=True)
class StopPosition:
    """The position of a StopCursor.

    Attributes:
        kind: never, latest, message_id, event_time or publish_time.
        timestamp: milliseconds since the epoch, for event_time and publish_time.
        is_inclusive: True if messages at the position are read.
    """

    kind: str
    message_id: PulsarMessageId | None = None
    timestamp: int | None = None
    is_inclusive: bool = False

    def is_behind(self, message: PulsarMessage) -> bool:
        """True if reading ends before this message."""
        if self.kind == "message_id":
            assert self.message_id is not None
            return self._is_over(_place(message.message_id), _place(self.message_id))
        if self.kind in ("event_time", "publish_time"):
            assert self.timestamp is not None
            time = message.event_time if self.kind == "event_time" else message.publish_time
            return self._is_over(time, self.timestamp)
        return False

    def ends_with(self, message_id: PulsarMessageId | None) -> bool:
        """True if no message after `message_id` is read."""
        if self.kind != "message_id" or self.message_id is None:
            return False
        if self.message_id.is_earliest or self.message_id.entry_id < 0:
            return True
        return message_id is not None and _place(message_id) >= _place(self.message_id)

    def _is_over(self, value: Any, limit: Any) -> bool:
        return bool(value > limit or (value == limit and not self.is_inclusive))


def _place(message_id: PulsarMessageId) -> tuple[int, int, int]:
    """Returns the id without the partition, which ids from other clients may lack."""
    return message_id[:3]


class StartCursor:
    """The position at which a new subscription begins. A restored job continues at its checkpoint instead."""

    def __init__(self, _j_start_cursor: StartPosition) -> None:
        self.position = _j_start_cursor

    @staticmethod
    def default_start_cursor() -> StartCursor:
        return StartCursor.earliest()

    @staticmethod
    def earliest() -> StartCursor:
        return StartCursor(StartPosition("earliest"))

    @staticmethod
    def latest() -> StartCursor:
        return StartCursor(StartPosition("latest"))

    @staticmethod
    def from_message_id(message_id: bytes, inclusive: bool = True) -> StartCursor:
        """Begins at a message.

        Args:
            message_id: the result of `serialize` of a MessageId of Pulsar's clients.
            inclusive: True to read the message itself.
        """
        parsed = PulsarMessageId.from_bytes(message_id)
        if parsed.is_earliest:
            return StartCursor.earliest()
        if parsed.is_latest:
            return StartCursor.latest()
        return StartCursor(StartPosition("message_id", parsed, inclusive))

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """Begins at messages published at `timestamp` or later, in milliseconds since the epoch."""
        return StartCursor(StartPosition("publish_time", timestamp=timestamp))


class StopCursor:
    """The position at which reading a partition ends.

    Times are in milliseconds since the epoch. An `at_...` cursor ends before the position, an `after_...` cursor after
    it.
    """

    def __init__(self, _j_stop_cursor: StopPosition) -> None:
        self.position = _j_stop_cursor

    @staticmethod
    def default_stop_cursor() -> StopCursor:
        return StopCursor.never()

    @staticmethod
    def never() -> StopCursor:
        return StopCursor(StopPosition("never"))

    @staticmethod
    def latest() -> StopCursor:
        """Ends with the last message that a partition has when it is discovered."""
        return StopCursor(StopPosition("latest"))

    @staticmethod
    def at_event_time(timestamp: int) -> StopCursor:
        return StopCursor(StopPosition("event_time", timestamp=timestamp))

    @staticmethod
    def after_event_time(timestamp: int) -> StopCursor:
        return StopCursor(StopPosition("event_time", timestamp=timestamp, is_inclusive=True))

    @staticmethod
    def at_publish_time(timestamp: int) -> StopCursor:
        return StopCursor(StopPosition("publish_time", timestamp=timestamp))

    @staticmethod
    def after_publish_time(timestamp: int) -> StopCursor:
        return StopCursor(StopPosition("publish_time", timestamp=timestamp, is_inclusive=True))

    @staticmethod
    def at_message_id(message_id: bytes) -> StopCursor:
        return _stop_at(message_id, False)

    @staticmethod
    def after_message_id(message_id: bytes) -> StopCursor:
        return _stop_at(message_id, True)


def _stop_at(serialized: bytes, is_inclusive: bool) -> StopCursor:
    parsed = PulsarMessageId.from_bytes(serialized)
    if parsed.is_latest:
        return StopCursor.latest()
    return StopCursor(StopPosition("message_id", parsed, is_inclusive=is_inclusive))


class RangeGenerator:
    """Selects the message keys that a source reads."""

    def __init__(self, j_range_generator: tuple[tuple[int, int], ...]) -> None:
        #: Ranges of key hashes, both ends included. If empty, all messages are read in an exclusive subscription.
        self.ranges = j_range_generator

    @staticmethod
    def full() -> RangeGenerator:
        """Reads all messages."""
        return RangeGenerator(())

    @staticmethod
    def fixed_key(
        support_null_key: bool = False,
        keys: str | list[str] | None = None,
        key_bytes: bytes | None = None,
        ordering_key_bytes: bytes | None = None,
    ) -> RangeGenerator:
        """Reads messages with certain keys. Other keys with the same hash are read too, so filter the records.

        Args:
            support_null_key: True to read messages without a key too.
            keys: one key or several.
            key_bytes: a further key, as bytes.
            ordering_key_bytes: a further ordering key, as bytes.

        Raises:
            ValueError: no key is given.
        """
        wanted = [key.encode() for key in ([keys] if isinstance(keys, str) else keys or [])]
        wanted += [key for key in (key_bytes, ordering_key_bytes) if key is not None]
        if support_null_key:
            wanted.append(_NO_KEY)
        hashes = sorted({murmur3_32(key) % RANGE_SIZE for key in wanted})
        if not hashes:
            raise ValueError("fixed_key needs at least one key")
        return RangeGenerator(tuple((key_hash, key_hash) for key_hash in hashes))


def murmur3_32(data: bytes) -> int:
    """Returns the hash that Pulsar uses for keys: MurmurHash3 without the sign bit."""
    mask = 0xFFFFFFFF
    value = 0
    for at in range(0, len(data), 4):
        block = int.from_bytes(data[at : at + 4], "little")
        block = block * 0xCC9E2D51 & mask
        block = (block << 15 | block >> 17) & mask
        value ^= block * 0x1B873593 & mask
        if at + 4 <= len(data):
            value = (value << 13 | value >> 19) & mask
            value = (value * 5 + 0xE6546B64) & mask
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & mask
    value = (value ^ value >> 13) * 0xC2B2AE35 & mask
    return (value ^ value >> 16) & 0x7FFFFFFF
