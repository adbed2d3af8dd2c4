"""Where a FileSink puts its files, how it names them, and when it begins a new one."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError

DEFAULT_PART_SIZE_BYTES = 128 << 20
DEFAULT_INTERVAL_MS = 60_000


class OutputFileConfig:
    """The name of a part file: `PREFIX-<uid>-<count>SUFFIX`; the uid is the writer's, drawn at random."""

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        for name, value in (("prefix", part_prefix), ("suffix", part_suffix)):
            if "/" in value or "\0" in value:
                raise ValueError(f"a part file's {name} cannot contain {value!r}")
        if part_prefix.startswith((".", "_")):
            raise ValueError(f"a file named {part_prefix}... would be hidden from readers")
        self._part_prefix = part_prefix
        self._part_suffix = part_suffix

    def get_part_prefix(self) -> str:
        return self._part_prefix

    def get_part_suffix(self) -> str:
        return self._part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        return OutputFileConfig.OutputFileConfigBuilder()

    class OutputFileConfigBuilder:
        """Defaults: `part` and no suffix."""

        def __init__(self) -> None:
            self._part_prefix = "part"
            self._part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self._part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self._part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            return OutputFileConfig(self._part_prefix, self._part_suffix)


class RollingPolicy(ABC):
    """When a part file is finished and the next one begun."""

    @abstractmethod
    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        """Asked of each open file, whenever something is written to any file of the subtask, and at checkpoints."""

    def should_roll_on_checkpoint(self, size_bytes: int) -> bool:
        """Whether a file must be finished at a checkpoint; else it is gone on with afterwards, also after a failure."""
        return False

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_SIZE_BYTES,
        rollover_interval: int = DEFAULT_INTERVAL_MS,
        inactivity_interval: int = DEFAULT_INTERVAL_MS,
    ) -> DefaultRollingPolicy:
        """Args in bytes and milliseconds: a file's size, its age, and the time since the last write to it."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Only at a checkpoint, or at the end of the input."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Source: org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy."""

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        limits = {
            "part_size": part_size,
            "rollover_interval": rollover_interval,
            "inactivity_interval": inactivity_interval,
        }
        for name, value in limits.items():
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise ValueError(f"{name} must be a positive int, not {value!r}")
        self._part_size_bytes = part_size
        self._rollover_interval_ms = rollover_interval
        self._inactivity_interval_ms = inactivity_interval

    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        return (
            size_bytes >= self._part_size_bytes
            or now_ms - created_ms >= self._rollover_interval_ms
            or now_ms - last_write_ms >= self._inactivity_interval_ms
        )


class OnCheckpointRollingPolicy(RollingPolicy):
    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        return False

    def should_roll_on_checkpoint(self, size_bytes: int) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class BucketAssignerContext:
    """What a BucketAssigner may look at besides the record. Times are in milliseconds since the epoch.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.BucketAssigner.Context.
    """

    processing_time_ms: int
    watermark_ms: int
    timestamp_ms: int | None

    def current_processing_time(self) -> int:
        return self.processing_time_ms

    def current_watermark(self) -> int:
        """The least there is where there has been none."""
        return self.watermark_ms

    def timestamp(self) -> int | None:
        """Of the record; None where it has none."""
        return self.timestamp_ms


class BucketAssigner:
    """The directory below the base path into which records go.

    Beyond PyFlink: subclass it and define `get_bucket_id`.
    """

    #: Whether the bucket is the same for all that is written at one time.
    looks_at_records = True

    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        """The bucket of a record: names of directories, with slashes in between; empty: the base path itself."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_bucket_id")

    def bucket_id(self, now_ms: int) -> str:
        """The bucket of what is written now, of an assigner that does not look at records."""
        raise NotImplementedError(f"{type(self).__name__} looks at records")

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """No directories."""
        return _BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """A directory per period of processing time.

        Args:
            format_str: of Java's DateTimeFormatter: yyyy MM dd HH mm ss SSS, and text in single quotes.
            timezone_id: such as `Europe/Berlin`; None: that of the machine.
        """
        return _DateTimeBucketAssigner(format_str, timezone_id)


class _BasePathBucketAssigner(BucketAssigner):
    looks_at_records = False

    def bucket_id(self, now_ms: int) -> str:
        return ""


_PATTERN_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>[^A-Za-z'])")
_STRFTIME = {"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


class _DateTimeBucketAssigner(BucketAssigner):
    looks_at_records = False

    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._parts = _parse_pattern(format_str)
        try:
            self._timezone = None if timezone_id is None else zoneinfo.ZoneInfo(timezone_id)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"unknown time zone {timezone_id!r}") from error

    def bucket_id(self, now_ms: int) -> str:
        now = datetime.datetime.fromtimestamp(now_ms / 1000, self._timezone)
        return "".join(
            f"{now_ms % 1000:03d}" if part == "SSS" else now.strftime(part) if part.startswith("%") else part
            for part in self._parts
        )


def _parse_pattern(pattern: str) -> list[str]:
    """strftime directives (`%Y`), `SSS`, and literal text that starts with neither."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        token = _PATTERN_TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"bucket format {pattern!r} has an open quote")
        position = token.end()
        if token["quoted"] is not None:
            parts.extend(token["quoted"].replace("''", "'") or "'")
        elif token["other"] is not None:
            parts.append("%%" if token["other"] == "%" else token["other"])
        elif token[0] == "SSS" or token[0] in _STRFTIME:
            parts.append(_STRFTIME.get(token[0], token[0]))
        else:
            raise UnsupportedOperationError(
                f"bucket format {pattern!r}: {token[0]!r} is not known; known are {', '.join((*_STRFTIME, 'SSS'))}"
            )
    return parts
