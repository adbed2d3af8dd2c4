"""Shards of a stream, their starting positions, and their assignment to subtasks.

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
#: Directives of strptime for the letters of Java's date patterns. Repeated letters mean the same.
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
    """A shard of a data stream.

    Attributes:
        parents: ids of the shards from which resharding created it. Their records come before its own.
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
        """Returns the shard for an entry of the answer to ListShards."""
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
    """A position in a shard.

    Attributes:
        kind: TRIM_HORIZON, AT_TIMESTAMP or AFTER_SEQUENCE_NUMBER.
        timestamp: seconds since the epoch, for AT_TIMESTAMP.
    """

    kind: str
    timestamp: float | None = None
    sequence_number: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of GetShardIterator."""
        arguments: dict[str, Any] = {"ShardIteratorType": self.kind}
        if self.timestamp is not None:
            # The request transmits whole seconds. The fetcher drops earlier records of that second.
            arguments["Timestamp"] = datetime.datetime.fromtimestamp(self.timestamp, datetime.UTC)
        if self.sequence_number is not None:
            arguments["StartingSequenceNumber"] = self.sequence_number
        return arguments


@dataclass(frozen=True, slots=True)
class KinesisShardSplit:
    """A shard that is to be read from `position`, or that has been read to its end."""

    shard: Shard
    position: Position
    is_finished: bool = False

    @property
    def split_id(self) -> str:
        return self.shard.split_id


@dataclass(frozen=True, slots=True)
class KinesisEnumeratorState:
    """The state of a KinesisEnumerator in a checkpoint.

    Attributes:
        start: the position for shards that are not known yet.
        known: ids of all known shards, including those of the other two attributes.
        waiting: splits whose parents have not been read to their end.
        finished: ids of shards that have been read to their end.
    """

    start: Position
    known: frozenset[str] = frozenset()
    waiting: tuple[KinesisShardSplit, ...] = ()
    finished: frozenset[str] = frozenset()


class KinesisShardAssigner:
    """Decides which subtask reads a shard.

    Args:
        j_kinesis_shard_assigner: a callable `(shard, parallelism) -> int`. Alternatively, override `assign`.
    """

    def __init__(self, j_kinesis_shard_assigner: Any) -> None:
        if not callable(j_kinesis_shard_assigner):
            raise TypeError(
                f"{j_kinesis_shard_assigner!r} is not a callable (shard, parallelism) -> int; flinkpy has no JVM and "
                "cannot use an assigner written in Java"
            )
        self._assign = j_kinesis_shard_assigner

    def assign(self, shard: Shard, parallelism: int) -> int:
        """Returns any int. The subtask is its remainder when divided by the parallelism."""
        index: int = self._assign(shard, parallelism)
        return index

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Returns an assigner that uses a hash of the shard's name."""
        return KinesisShardAssigner(_by_name)

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """Returns an assigner that uses the middle of the shard's range of hash keys.

        The load is even if the partition keys of the records are random.
        """
        return KinesisShardAssigner(_by_hash_keys)


def _by_name(shard: Shard, parallelism: int) -> int:
    return zlib.crc32(shard.split_id.encode())


def _by_hash_keys(shard: Shard, parallelism: int) -> int:
    middle = (shard.starting_hash_key + shard.ending_hash_key) // 2
    # The first shards of different streams go to different subtasks.
    return middle * parallelism // _NUM_HASH_KEYS + zlib.crc32(shard.stream.encode())


def starting_position(properties: dict[str, str]) -> Position | None:
    """Returns the starting position that the properties set; None for LATEST, the default.

    Raises: ConfigurationError.
    """
    kind = properties.get(INITPOS, "LATEST").upper()
    if kind == "LATEST":
        return None
    if kind == "TRIM_HORIZON":
        return Position(kind)
    if kind != "AT_TIMESTAMP":
        raise ConfigurationError(f"{INITPOS} must be LATEST, TRIM_HORIZON or AT_TIMESTAMP, not {kind!r}")
    text = properties.get(INITPOS_TIMESTAMP)
    if text is None:
        raise ConfigurationError(f"{INITPOS} AT_TIMESTAMP needs the property {INITPOS_TIMESTAMP}")
    return Position(kind, timestamp=_seconds(text, properties.get(INITPOS_TIMESTAMP_FORMAT)))


def _seconds(text: str, pattern: str | None) -> float:
    """Parses seconds since the epoch, or a date in ISO form or in a pattern of Java's SimpleDateFormat."""
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
            raise ConfigurationError(f"{INITPOS_TIMESTAMP} {text!r} is not a time: {error}") from error
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
