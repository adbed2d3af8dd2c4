"""PulsarMessageId: the ordered position of a message, and its serialized form in Pulsar's clients.

Source: org.apache.pulsar.client.api.MessageId; PulsarApi.proto, MessageIdData.
"""

from __future__ import annotations

from typing import NamedTuple

from flinkpy.common.errors import ConfigurationError

_MAX = (1 << 63) - 1
_LEDGER, _ENTRY, _PARTITION, _BATCH_INDEX = 1, 2, 3, 4


class PulsarMessageId(NamedTuple):
    """The id of a message. Ids of one partition have the order of its messages."""

    ledger_id: int
    entry_id: int
    #: The index within an entry that has several messages; -1 if the entry has one message.
    batch_index: int = -1
    partition: int = -1

    @property
    def is_earliest(self) -> bool:
        return self.ledger_id < 0

    @property
    def is_latest(self) -> bool:
        return self.ledger_id == _MAX

    @staticmethod
    def from_bytes(serialized: bytes) -> PulsarMessageId:
        """Parses the result of `serialize` of Pulsar's clients. Raises: ConfigurationError."""
        values = {_PARTITION: -1, _BATCH_INDEX: -1}
        at = 0
        try:
            while at < len(serialized):
                tag, at = _read(serialized, at)
                if tag & 7 == 2:
                    length, at = _read(serialized, at)
                    at += length
                else:
                    values[tag >> 3], at = _read(serialized, at)
            return PulsarMessageId(values[_LEDGER], values[_ENTRY], values[_BATCH_INDEX], values[_PARTITION])
        except (IndexError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{serialized!r} is not a serialized message id of Pulsar") from error

    def to_bytes(self) -> bytes:
        fields = ((_LEDGER, self.ledger_id), (_ENTRY, self.entry_id), (_PARTITION, self.partition))
        return b"".join(_written(number << 3) + _written(value) for number, value in fields) + (
            b"" if self.batch_index < 0 else _written(_BATCH_INDEX << 3) + _written(self.batch_index)
        )


def _read(data: bytes, at: int) -> tuple[int, int]:
    """Reads a varint. Returns the number, as a signed 64-bit int, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            value &= (1 << 64) - 1
            return (value - (1 << 64) if value >> 63 else value), at


def _written(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
