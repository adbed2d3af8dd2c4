"""Shards of a stream, where to read them from, and who reads them.

Source: org.apache.flink.streaming.connectors.kinesis.model.{StreamShardHandle,StartingPosition},
org.apache.flink.streaming.connectors.kinesis.util.UniformShardAssigner.
"""

from __future__ import annotations

import datetime
import zlib
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import ConfigurationError

INITPOS = "flink.stream.initpos"
INITPOS_TIMESTAMP = "flink.stream.initpos.timestamp"
INITPOS_TIMESTAMP_FORMAT = "flink.stream.initpos.timestamp.format"

_NUM_HASH_KEYS = 1 << 128
#: Letters of Java's date patterns, repeated or not.
_JAVA_PATTERN = {
    "y": "%Y",
    "M": "%m",
    "d": "%d",
    "H": "%H",
    "m": "%M",
    "s": "%S",
    "S": "%f",
    "X": "%z",
    "Z": "%z",
}


@dataclass(frozen=True, slots=True)
class Shard:
    """Attributes:
    parents: ids of the shards that it was made from by resharding; their records come before its own.
    """

    stream: str
    shard_id: str
    parents: tuple[str, ...] = ()
    starting_hash_key: int = 0
    ending_hash_key: int = _NUM_HASH_KEYS - 1

    @property
    def split_id(self) -> str:
        return f"{self.stream}/{self.shard_id}"

    @property
    def parent_split_ids(self) -> list[str]:
        return [f"{self.stream}/{parent}" for parent in self.parents]

    @staticmethod
    def of(stream: str, listed: dict[str, Any]) -> Shard:
        """As AWS lists it."""
        hash_keys = listed["HashKeyRange"]
        parents = (listed.get("ParentShardId"), listed.get("AdjacentParentShardId"))
        return Shard(
            stream,
            listed["ShardId"],
            tuple(parent for parent in parents if parent),
            int(hash_keys["StartingHashKey"]),
            int(hash_keys["EndingHashKey"]),
        )


@dataclass(frozen=True, slots=True)
class Position:
    """`kind`: TRIM_HORIZON, AT_TIMESTAMP (seconds since 1970), or AFTER_SEQUENCE_NUMBER."""

    kind: str
    timestamp: float | None = None
    sequence_number: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Of GetShardIterator."""
        arguments: dict[str, Any] = {"ShardIteratorType": self.kind}
        if self.timestamp is not None:
            # Whole seconds are all that is transmitted: what came before is left out by whoever reads.
            arguments["Timestamp"] = datetime.datetime.fromtimestamp(self.timestamp, datetime.UTC)
        if self.sequence_number is not None:
            arguments["StartingSequenceNumber"] = self.sequence_number
        return arguments


@dataclass(frozen=True, slots=True)
class KinesisShardSplit:
    """A shard that is read from `position` on, or was read to its end."""

    shard: Shard
    position: Position
    is_finished: bool = False

    @property
    def split_id(self) -> str:
        return self.shard.split_id


@dataclass(frozen=True, slots=True)
class KinesisEnumeratorState:
    """Attributes:
    start: of shards that are not known yet. known: ids of all shards there have been, those below included.
    waiting: for the end of their parents. finished: ids of those read to their end.
    """

    start: Position
    known: frozenset[str] = frozenset()
    waiting: tuple[KinesisShardSplit, ...] = ()
    finished: frozenset[str] = frozenset()


class KinesisShardAssigner:
    """Which subtask reads a shard: define `assign` for an own one, or give a callable `(shard, parallelism) -> int`."""

    def __init__(self, j_kinesis_shard_assigner: Any) -> None:
        if not callable(j_kinesis_shard_assigner):
            raise TypeError(
                f"{j_kinesis_shard_assigner!r} is not a callable (shard, parallelism) -> int; flinkpy has no JVM for "
                "an assigner of Java"
            )
        self._assign = j_kinesis_shard_assigner

    def assign(self, shard: Shard, parallelism: int) -> int:
        """Any int: what is left of it when divided by the parallelism is the subtask."""
        index: int = self._assign(shard, parallelism)
        return index

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """By a hash of the shard's name."""
        return KinesisShardAssigner(_by_name)

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """By the middle of its hash keys: evenly, where the records' keys are random."""
        return KinesisShardAssigner(_by_hash_keys)


def _by_name(shard: Shard, parallelism: int) -> int:
    return zlib.crc32(shard.split_id.encode())


def _by_hash_keys(shard: Shard, parallelism: int) -> int:
    middle = (shard.starting_hash_key + shard.ending_hash_key) // 2
    # Streams begin with different subtasks.
    return middle * parallelism // _NUM_HASH_KEYS + zlib.crc32(shard.stream.encode())


def starting_position(properties: dict[str, str]) -> Position | None:
    """As the properties say; None: LATEST, which is the default.

    Raises: ConfigurationError.
    """
    kind = properties.get(INITPOS, "LATEST").upper()
    if kind == "LATEST":
        return None
    if kind == "TRIM_HORIZON":
        return Position(kind)
    if kind != "AT_TIMESTAMP":
        raise ConfigurationError(f"{INITPOS} is LATEST, TRIM_HORIZON or AT_TIMESTAMP, not {kind!r}")
    text = properties.get(INITPOS_TIMESTAMP)
    if text is None:
        raise ConfigurationError(f"{INITPOS} AT_TIMESTAMP needs {INITPOS_TIMESTAMP}")
    return Position(kind, timestamp=_seconds(text, properties.get(INITPOS_TIMESTAMP_FORMAT)))


def _seconds(text: str, pattern: str | None) -> float:
    """Seconds since 1970, or a date: in ISO form unless a pattern of Java's SimpleDateFormat is given."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = (
                datetime.datetime.fromisoformat(text)
                if pattern is None
                else datetime.datetime.strptime(text, _python_pattern(pattern))
            )
        except ValueError as error:
            raise ConfigurationError(f"{INITPOS_TIMESTAMP} {text!r} is no time: {error}") from error
        seconds = (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()
    if not 0 <= seconds < float("inf"):
        raise ConfigurationError(f"{INITPOS_TIMESTAMP} must not be negative: {text!r}")
    return seconds


def _python_pattern(pattern: str) -> str:
    made, rest = "", pattern
    while rest:
        if rest[0] == "'":
            quoted, _, rest = rest[1:].partition("'")
            made += quoted.replace("%", "%%") or "'"
            continue
        made += _JAVA_PATTERN.get(rest[0], rest[0].replace("%", "%%"))
        rest = rest.lstrip(rest[0]) if rest[0] in _JAVA_PATTERN else rest[1:]
    return made
