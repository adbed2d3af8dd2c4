"""Where a subscription begins, where reading ends, and which keys are read.

Source: org.apache.flink.connector.pulsar.source.enumerator.{cursor.StartCursor,cursor.StopCursor,
topic.range.FixedKeysRangeGenerator}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.connectors.pulsar.message_id import PulsarMessageId

if TYPE_CHECKING:
    from flinkpy.connectors.pulsar.client import PulsarMessage

#: What a key's hash is at most, and one.
RANGE_SIZE = 65_536
_NO_KEY = b"NONE_KEY"


@dataclass(frozen=True)
class StartPosition:
    """`kind`: earliest, latest, message_id or publish_time (ms)."""

    kind: str
    message_id: PulsarMessageId | None = None
    is_inclusive: bool = True
    timestamp: int | None = None


@dataclass(frozen=True)
class StopPosition:
    """`kind`: never, latest, message_id, event_time or publish_time (ms). What lies there is read where inclusive."""

    kind: str
    message_id: PulsarMessageId | None = None
    timestamp: int | None = None
    is_inclusive: bool = False

    def is_behind(self, message: PulsarMessage) -> bool:
        """Whether reading ends before this message."""
        if self.kind == "message_id":
            assert self.message_id is not None
            return self._is_over(_place(message.message_id), _place(self.message_id))
        if self.kind in ("event_time", "publish_time"):
            assert self.timestamp is not None
            time = message.event_time if self.kind == "event_time" else message.publish_time
            return self._is_over(time, self.timestamp)
        return False

    def ends_with(self, message_id: PulsarMessageId | None) -> bool:
        """Whether nothing can follow that message: it is the last one, or behind it."""
        if self.kind != "message_id" or self.message_id is None:
            return False
        if self.message_id.is_earliest or self.message_id.entry_id < 0:
            return True
        return message_id is not None and _place(message_id) >= _place(self.message_id)

    def _is_over(self, value: Any, limit: Any) -> bool:
        return bool(value > limit or (value == limit and not self.is_inclusive))


def _place(message_id: PulsarMessageId) -> tuple[int, int, int]:
    """Without the partition, which ids of elsewhere may lack."""
    return message_id[:3]


class StartCursor:
    """Where a subscription begins that there has not been before; a job that is restored goes on where it was."""

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
        """Args:
        message_id: as `serialize` of Pulsar's clients gives it.
        """
        parsed = PulsarMessageId.from_bytes(message_id)
        if parsed.is_earliest:
            return StartCursor.earliest()
        if parsed.is_latest:
            return StartCursor.latest()
        return StartCursor(StartPosition("message_id", parsed, inclusive))

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """Ms since 1970."""
        return StartCursor(StartPosition("publish_time", timestamp=timestamp))


class StopCursor:
    """Where each partition ends. Times in ms since 1970: `at` ends before a message of that time, `after` behind it."""

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
        """The last message that is there when the partition is found."""
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
    """Which keys a source reads."""

    def __init__(self, j_range_generator: tuple[tuple[int, int], ...]) -> None:
        #: Of hashes of keys, both ends included; none: all messages, in an exclusive subscription.
        self.ranges = j_range_generator

    @staticmethod
    def full() -> RangeGenerator:
        return RangeGenerator(())

    @staticmethod
    def fixed_key(
        support_null_key: bool = False,
        keys: str | list[str] | None = None,
        key_bytes: bytes | None = None,
        ordering_key_bytes: bytes | None = None,
    ) -> RangeGenerator:
        """Messages with these keys, and with others of the same hash: filter them.

        Args:
            support_null_key: also messages without a key.
        """
        wanted = [key.encode() for key in ([keys] if isinstance(keys, str) else keys or [])]
        wanted += [key for key in (key_bytes, ordering_key_bytes) if key is not None]
        if support_null_key:
            wanted.append(_NO_KEY)
        hashes = sorted({murmur3_32(key) % RANGE_SIZE for key in wanted})
        if not hashes:
            raise ValueError("fixed_key: no key is given")
        return RangeGenerator(tuple((key_hash, key_hash) for key_hash in hashes))


def murmur3_32(data: bytes) -> int:
    """As Pulsar has it: without the sign."""
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
