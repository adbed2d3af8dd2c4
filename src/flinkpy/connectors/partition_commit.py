"""The commit of partitions: decides when all records of a partition have been written.

Each writer says with every checkpoint how far it has come. A partition is complete when all writers have passed its
end: by their watermarks (partition time), or by the age of the partition (processing time). Nothing here touches files
or a clock.

Source: org.apache.flink.connector.file.table.stream.{PartitionTimeCommitTrigger, ProcTimeCommitTrigger} and
org.apache.flink.connector.file.table.DefaultPartTimeExtractor.
"""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.user_classes import object_of
from flinkpy.connectors.file_sink_config import DEFAULT_SUCCESS_FILE, time_pattern
from flinkpy.formats.partitioned_format import unescaped

#: The watermark of a writer whose input has ended.
END_OF_TIME = (1 << 63) - 1

_TIMESTAMP = re.compile(
    r"(?P<year>\d{1,10})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?: (?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?P<fraction>\.\d{1,9})?)?"
)


@dataclass(frozen=True, slots=True)
class PartitionTimeExtractor:
    """Reads the time at which a partition begins from the values of its columns.

    Attributes:
        timestamp_pattern: a text with `$column` for values, such as `$dt $hour:00:00`; None for the first value.
        timestamp_formatter: the pattern of Java's DateTimeFormatter for that text; None for `yyyy-MM-dd[ HH:mm:ss]`,
            whose numbers may have fewer digits and may be too large: month 13 is the next January.

    Differs: `$day` is the value of `day` even if there is a column `d`.
    """

    timestamp_pattern: str | None = None
    timestamp_formatter: str | None = None

    def __post_init__(self) -> None:
        if self.timestamp_formatter is not None:
            time_pattern(self.timestamp_formatter)

    def extract(self, partition: str) -> datetime.datetime:
        """Returns the time without a time zone. Raises: ConfigurationError, which names the partition and its text.

        Args:
            partition: the directory, such as `dt=2024-01-02/hour=05`.
        """
        values = _values_of(partition)
        text = self._text(values)
        try:
            if self.timestamp_formatter is None:
                return _lenient_time(text)
            # A date alone is parsed too: strptime begins the day at midnight.
            directives = "".join("%f" if part == "SSS" else part for part in time_pattern(self.timestamp_formatter))
            return datetime.datetime.strptime(text, directives)
        except (ValueError, OverflowError) as error:
            expected = self.timestamp_formatter or "yyyy-MM-dd HH:mm:ss"
            raise ConfigurationError(
                f"partition {partition}: {text!r} is not a time of the form {expected}, so the partition cannot be "
                "committed by its time: set partition.time-extractor.timestamp-pattern and timestamp-formatter",
                details={"partition": partition, "text": text},
            ) from error

    def _text(self, values: dict[str, str]) -> str:
        if self.timestamp_pattern is None:
            return next(iter(values.values()), "")
        names = sorted(values, key=len, reverse=True)
        found = re.compile(r"\$(" + "|".join(map(re.escape, names)) + ")")
        return found.sub(lambda match: values[match[1]], self.timestamp_pattern)


def _values_of(partition: str) -> dict[str, str]:
    parts = (part.partition("=") for part in partition.split("/"))
    return {unescaped(name): unescaped(value) for name, _, value in parts}


def _lenient_time(text: str) -> datetime.datetime:
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    months = int(found["year"]) * 12 + int(found["month"]) - 1
    return datetime.datetime(months // 12, months % 12 + 1, 1) + datetime.timedelta(
        days=int(found["day"]) - 1,
        hours=int(found["hour"] or 0),
        minutes=int(found["minute"] or 0),
        seconds=int(found["second"] or 0),
        microseconds=int(float(found["fraction"] or 0) * 1_000_000),
    )


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """A partition whose files are all visible.

    Attributes:
        path: its directory, below that of the table.
        values: the values of its columns, by name.
    """

    path: str
    values: dict[str, str]

    @staticmethod
    def of(base_path: str, partition: str) -> CommittedPartition:
        return CommittedPartition(f"{base_path.rstrip('/')}/{partition}", _values_of(partition))


class PartitionCommitPolicy(ABC):
    """Tells others that a partition is complete, such as a metastore. Subclasses are made in the committer's task.

    Source: org.apache.flink.connector.file.table.PartitionCommitPolicy.
    """

    @abstractmethod
    def commit(self, partition: CommittedPartition) -> None:
        """Called after the files are visible, and again after a failure: it must have the same effect then."""


@dataclass(frozen=True, slots=True)
class PolicyClass:
    """A class of the user, and the arguments of its constructor.

    Attributes:
        path: module and class, such as `jobs.policies.Announce`.
    """

    path: str
    arguments: tuple[str, ...] = ()

    def make(self) -> PartitionCommitPolicy:
        """Returns a new policy. Raises: ConfigurationError if the class is not there or is none of a policy."""
        base: type[PartitionCommitPolicy] = PartitionCommitPolicy  # type: ignore[type-abstract]
        return object_of(self.path, base, "partition commit policy", self.arguments)


@dataclass(frozen=True, slots=True)
class PartitionCommitSettings:
    """When a partition is committed, and how.

    Attributes:
        success_file: the name of the empty file that says that a partition is complete; None: there is none.
        policy: a policy of the user; None: there is none.
        extractor: reads the times of partitions, which are compared with watermarks; None: partitions are committed by
            their age in processing time.
        delay_ms: how long after its time, or its first file, a partition is committed.
        time_zone: that of the times of partitions.
    """

    success_file: str | None = DEFAULT_SUCCESS_FILE
    extractor: PartitionTimeExtractor | None = None
    delay_ms: int = 0
    time_zone: datetime.tzinfo = datetime.UTC
    policy: PolicyClass | None = None


@dataclass(frozen=True, slots=True)
class WriterProgress:
    """A committable without a file: how far a writer had come at a checkpoint.

    Attributes:
        watermark_ms: END_OF_TIME at the end of the input.
        unfinished: the partitions with files of the writer that this checkpoint does not publish.
    """

    subtask_index: int
    parallelism: int
    watermark_ms: int
    unfinished: tuple[str, ...] = ()


@dataclass(slots=True)
class PendingPartitions:
    """The partitions that have files and are not committed, and the last progress of each writer.

    Attributes:
        seen_ms: for each partition the processing time at which its first file was published.
    """

    seen_ms: dict[str, int] = field(default_factory=dict)
    progress: dict[int, WriterProgress] = field(default_factory=dict)

    def add(self, partitions: Iterable[str], progress: Iterable[WriterProgress], now_ms: int) -> None:
        """Adds what a checkpoint has published. A partition that was committed before becomes pending again."""
        for partition in partitions:
            if partition:
                self.seen_ms.setdefault(partition, now_ms)
        for each in progress:
            if any(known.parallelism != each.parallelism for known in self.progress.values()):
                self.progress.clear()
            self.progress[each.subtask_index] = each

    @property
    def watermark_ms(self) -> int | None:
        """The watermark that all writers have reached; None if one is not known yet."""
        known = list(self.progress.values())
        if not known or len(known) < known[0].parallelism:
            return None
        return min(each.watermark_ms for each in known)

    def complete(self, settings: PartitionCommitSettings, now_ms: int) -> list[str]:
        """Returns the partitions that are to be committed, in order. They stay pending until `remove`."""
        watermark_ms = self.watermark_ms
        unfinished = {partition for each in self.progress.values() for partition in each.unfinished}
        found = []
        for partition in sorted(self.seen_ms.keys() - unfinished):
            if watermark_ms == END_OF_TIME:
                is_due = True
            elif settings.extractor is None:
                is_due = settings.delay_ms == 0 or now_ms > self.seen_ms[partition] + settings.delay_ms
            else:
                begin = settings.extractor.extract(partition).replace(tzinfo=settings.time_zone)
                is_due = watermark_ms is not None and watermark_ms > _millis(begin) + settings.delay_ms
            if is_due:
                found.append(partition)
        return found

    def remove(self, partition: str) -> None:
        """Records that a partition has been committed."""
        del self.seen_ms[partition]

    def to_state(self) -> dict[str, Any]:
        """Returns plain data for a checkpoint."""
        progress = [
            (each.subtask_index, each.parallelism, each.watermark_ms, list(each.unfinished))
            for each in self.progress.values()
        ]
        return {"seen": dict(self.seen_ms), "progress": progress}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> PendingPartitions:
        """Raises: KeyError, TypeError or ValueError if `to_state` did not return this."""
        progress = {
            index: WriterProgress(index, parallelism, watermark_ms, tuple(unfinished))
            for index, parallelism, watermark_ms, unfinished in state["progress"]
        }
        return cls(dict(state["seen"]), progress)


def _millis(moment: datetime.datetime) -> int:
    return (moment - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(milliseconds=1)
