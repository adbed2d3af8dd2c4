"""Settings of a FileSink: OutputFileConfig, RollingPolicy and BucketAssigner."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.connectors.write_mode import WriteMode
from flinkpy.formats.partitioned_format import DEFAULT_PARTITION

DEFAULT_PART_SIZE_BYTES = 128 << 20
DEFAULT_INTERVAL_MS = 60_000
#: As in Flink and Hadoop.
DEFAULT_SUCCESS_FILE = "_SUCCESS"
#: The options of Flink's table connector that `FileSink` has, too.
COMMIT_POLICY = "sink.partition-commit.policy.kind"
SUCCESS_FILE_NAME = "sink.partition-commit.success-file.name"


class OutputFileConfig:
    """The names of part files: `PREFIX-<uid>-<count>SUFFIX`. The uid is a random id of the writer.

    Args:
        part_prefix: must not begin with a dot or an underscore, because readers skip such files.
        part_suffix: such as `.csv`.
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        for name, value in (("prefix", part_prefix), ("suffix", part_suffix)):
            if "/" in value or "\0" in value:
                raise ValueError(f"the {name} of part files must not contain '/' or NUL: {value!r}")
        if part_prefix.startswith((".", "_")):
            raise ValueError(f"readers skip files with the prefix {part_prefix!r}: it must not begin with '.' or '_'")
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
        """Builds an OutputFileConfig. The default prefix is `part`; the default suffix is empty."""

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


@dataclass(frozen=True, slots=True)
class Publication:
    """Says how a batch job makes its files visible.

    Attributes:
        mode: what happens to the files that are there.
        success_file: the name of the empty file that is written when all others are visible; None: there is none.
    """

    mode: WriteMode = WriteMode.APPEND
    success_file: str | None = None

    @property
    def needs_batch_mode(self) -> bool:
        return self != Publication()


def success_file_of(properties: dict[str, str]) -> str | None:
    """Returns the name of the success file that properties of Flink's table connector ask for; None if they do not.

    Raises: ConfigurationError, which names the property.
    """
    for key in properties:
        if key not in (COMMIT_POLICY, SUCCESS_FILE_NAME):
            raise ConfigurationError(
                f"{key} is not an option of FileSink, only {COMMIT_POLICY} and {SUCCESS_FILE_NAME}"
            )
    kinds = {kind.strip() for kind in properties.get(COMMIT_POLICY, "").split(",")} - {""}
    if kinds - {"success-file"}:
        raise ConfigurationError(f"{COMMIT_POLICY}: {properties[COMMIT_POLICY]} is not supported, only success-file")
    if not kinds:
        return None
    name = properties.get(SUCCESS_FILE_NAME, DEFAULT_SUCCESS_FILE)
    if not name.startswith(("_", ".")) or "/" in name or "\0" in name or name in (".", ".."):
        raise ConfigurationError(
            f"{SUCCESS_FILE_NAME}: {name!r} must be a name that begins with '_' or '.', so that readers of the "
            "directory skip the file"
        )
    return name


class RollingPolicy(ABC):
    """Decides when a part file is finished and the next one begins. Subclass it for a policy of your own."""

    @abstractmethod
    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        """Returns True to finish a file.

        Called for each open file when the subtask writes to any file, and at checkpoints. Times are in milliseconds
        since the epoch.
        """

    def should_roll_on_checkpoint(self, size_bytes: int) -> bool:
        """Returns True to finish a file at a checkpoint. Otherwise it is continued, even after a failure."""
        return False

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_SIZE_BYTES,
        rollover_interval: int = DEFAULT_INTERVAL_MS,
        inactivity_interval: int = DEFAULT_INTERVAL_MS,
    ) -> DefaultRollingPolicy:
        """Finishes a file at a certain size or age, or when it has not been written to for a while.

        Args:
            part_size: in bytes.
            rollover_interval: the age in milliseconds.
            inactivity_interval: the time since the last write in milliseconds.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Finishes files at checkpoints and at the end of the input only."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Finishes files by size, age and inactivity.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy.
    """

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
    """Finishes files at every checkpoint."""

    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        return False

    def should_roll_on_checkpoint(self, size_bytes: int) -> bool:
        return True


class TableRollingPolicy(OnCheckpointRollingPolicy):
    """Finishes files at every checkpoint, and before that by size, age and inactivity.

    Source: org.apache.flink.connector.file.table.FileSystemTableSink.TableRollingPolicy.
    """

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        self._limits = DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    def should_roll(self, size_bytes: int, created_ms: int, last_write_ms: int, now_ms: int) -> bool:
        return self._limits.should_roll(size_bytes, created_ms, last_write_ms, now_ms)


@dataclass(frozen=True, slots=True)
class BucketAssignerContext:
    """The second argument of `BucketAssigner.get_bucket_id`. Times are in milliseconds since the epoch.

    Source: org.apache.flink.streaming.api.functions.sink.filesystem.BucketAssigner.Context.
    """

    processing_time_ms: int
    watermark_ms: int
    timestamp_ms: int | None

    def current_processing_time(self) -> int:
        return self.processing_time_ms

    def current_watermark(self) -> int:
        """Returns the current watermark, or the smallest one (-2**63) before the first."""
        return self.watermark_ms

    def timestamp(self) -> int | None:
        """Returns the timestamp of the record; None if it has none."""
        return self.timestamp_ms


class BucketAssigner:
    """Chooses the bucket of a record: the directory below the base path to which it is written.

    Beyond PyFlink: subclass it and define `get_bucket_id`.

    Example:
        >>> class ByCountry(BucketAssigner):
        ...     def get_bucket_id(self, element, context):
        ...         return f"country={element['country']}"
    """

    #: False if all records written at one time have the same bucket.
    looks_at_records = True

    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        """Returns the bucket of a record: directory names separated by slashes, or "" for the base path."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_bucket_id")

    def bucket_id(self, now_ms: int) -> str:
        """Returns the bucket of all records that are written now, if the assigner does not look at records."""
        raise NotImplementedError(f"{type(self).__name__} looks at records, so it has no bucket without one")

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Writes all files to the base path."""
        return _BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Writes to a directory per period of processing time.

        Args:
            format_str: a pattern of Java's DateTimeFormatter, from yyyy MM dd HH mm ss SSS and text in single quotes.
            timezone_id: such as `Europe/Berlin`; None for the time zone of the machine.
        """
        return _DateTimeBucketAssigner(format_str, timezone_id)

    @staticmethod
    def column_bucket_assigner(*columns: str, default_name: str = DEFAULT_PARTITION) -> BucketAssigner:
        """Writes to a directory per value of some columns, named like partitions of Hive: `year=2024/month=07`.

        Beyond PyFlink. The files do not have these columns: readers take them from the names of the directories, as
        `FileSource.for_parquet(..., partition_columns=...)` does. The sink needs a bulk format with columns.

        Args:
            columns: in the order of the directories. Their types are STRING, BOOLEAN, SQL_DATE or integers. Null and
                the empty string are written to `default_name`.
            default_name: `__HIVE_DEFAULT_PARTITION__` by default.
        """
        return ColumnBucketAssigner(columns, default_name)


class ColumnBucketAssigner(BucketAssigner):
    """Chooses the bucket of a record by the values of columns."""

    #: An assigner that an earlier release has pickled has no such attribute.
    default_name = DEFAULT_PARTITION

    def __init__(self, columns: tuple[str, ...], default_name: str = DEFAULT_PARTITION) -> None:
        if not columns or len(set(columns)) < len(columns) or not all(isinstance(one, str) for one in columns):
            raise ValueError(f"the columns of partitions must be one or more different names, not {columns!r}")
        self.columns = columns
        self.default_name = default_name


class _BasePathBucketAssigner(BucketAssigner):
    looks_at_records = False

    def bucket_id(self, now_ms: int) -> str:
        return ""


_PATTERN_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>[^A-Za-z'])")
_STRFTIME = {"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


class _DateTimeBucketAssigner(BucketAssigner):
    looks_at_records = False

    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._parts = time_pattern(format_str)
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


def time_pattern(pattern: str) -> list[str]:
    """Splits a pattern of Java's DateTimeFormatter into strftime directives (`%Y`), `SSS`, and literal text.

    Raises: ValueError, UnsupportedOperationError for a letter that has no directive here.
    """
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        token = _PATTERN_TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"time pattern {pattern!r} has an unclosed quote")
        position = token.end()
        if token["quoted"] is not None:
            parts.extend(token["quoted"].replace("''", "'") or "'")
        elif token["other"] is not None:
            parts.append("%%" if token["other"] == "%" else token["other"])
        elif token[0] == "SSS" or token[0] in _STRFTIME:
            parts.append(_STRFTIME.get(token[0], token[0]))
        else:
            raise UnsupportedOperationError(
                f"time pattern {pattern!r}: {token[0]!r} is not supported, only {', '.join((*_STRFTIME, 'SSS'))}"
            )
    return parts
