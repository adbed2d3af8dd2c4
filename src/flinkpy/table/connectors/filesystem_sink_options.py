"""The options with which the connector `filesystem` writes: when files are finished, merged, and partitions committed.

Source: org.apache.flink.connector.file.table.FileSystemConnectorOptions and FileSystemTableFactory.validate.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.connectors.file_compaction import FileCompactor, FileCompactStrategy
from flinkpy.connectors.file_sink_config import (
    COMMIT_POLICY,
    DEFAULT_PART_SIZE_BYTES,
    DEFAULT_SUCCESS_FILE,
    SUCCESS_FILE_NAME,
    TableRollingPolicy,
    success_file_of,
)
from flinkpy.connectors.partition_commit import PartitionCommitSettings, PartitionTimeExtractor, PolicyClass
from flinkpy.sql.types.time_zones import zone_of
from flinkpy.table.connectors.table_options import TableOptions

_MINUTE_MS = 60_000

DEFAULT_NAME = ConfigOption(
    "partition.default-name", OptionType.STRING, "__DEFAULT_PARTITION__", "The directory of null and the empty text."
)
FILE_SIZE = ConfigOption(
    "sink.rolling-policy.file-size",
    OptionType.MEMORY,
    DEFAULT_PART_SIZE_BYTES,
    "The size from which a file is finished.",
    minimum=1,
)
ROLLOVER_INTERVAL = ConfigOption(
    "sink.rolling-policy.rollover-interval",
    OptionType.DURATION,
    30 * _MINUTE_MS,
    "The age from which a file is finished.",
    minimum=1,
)
INACTIVITY_INTERVAL = ConfigOption(
    "sink.rolling-policy.inactivity-interval",
    OptionType.DURATION,
    30 * _MINUTE_MS,
    "A file is finished when nothing has been written to it for so long.",
    minimum=1,
)
CHECK_INTERVAL = without_effect(
    ConfigOption(
        "sink.rolling-policy.check-interval",
        OptionType.DURATION,
        _MINUTE_MS,
        "The ages of files are checked at every write and every checkpoint.",
    )
)
SHUFFLE_BY_PARTITION = ConfigOption(
    "sink.shuffle-by-partition.enable", OptionType.BOOL, False, "True to send the rows of a partition to one writer."
)
AUTO_COMPACTION = ConfigOption(
    "auto-compaction", OptionType.BOOL, False, "True to merge the files that a writer has finished in a checkpoint."
)
COMPACTION_FILE_SIZE: ConfigOption[int | None] = ConfigOption(
    "compaction.file-size",
    OptionType.MEMORY,
    None,
    "The largest size of merged files; by default that of 'sink.rolling-policy.file-size'.",
    minimum=1,
)
POLICY_KIND: ConfigOption[str | None] = ConfigOption(
    COMMIT_POLICY, OptionType.STRING, None, "What is done with a complete partition: success-file, custom or both."
)
POLICY_CLASS: ConfigOption[str | None] = ConfigOption(
    "sink.partition-commit.policy.class", OptionType.STRING, None, "The class of a custom policy: module.Class."
)
POLICY_ARGUMENTS: ConfigOption[str | None] = ConfigOption(
    "sink.partition-commit.policy.class.parameters",
    OptionType.STRING,
    None,
    "The arguments of the constructor of that class, separated by semicolons.",
)
SUCCESS_FILE = ConfigOption(
    SUCCESS_FILE_NAME, OptionType.STRING, DEFAULT_SUCCESS_FILE, "The name of the file in a complete partition."
)
TRIGGER = ConfigOption(
    "sink.partition-commit.trigger",
    OptionType.ENUM,
    "process-time",
    "What completes a partition: its age, or watermarks.",
    choices=("process-time", "partition-time"),
)
DELAY = ConfigOption(
    "sink.partition-commit.delay", OptionType.DURATION, 0, "How long after its time a partition is complete."
)
WATERMARK_TIME_ZONE = ConfigOption(
    "sink.partition-commit.watermark-time-zone", OptionType.STRING, "UTC", "The time zone of the times of partitions."
)
EXTRACTOR_KIND = ConfigOption(
    "partition.time-extractor.kind", OptionType.STRING, "default", "How the time of a partition is found."
)
EXTRACTOR_CLASS: ConfigOption[str | None] = ConfigOption(
    "partition.time-extractor.class", OptionType.STRING, None, "The class of a custom extractor."
)
TIMESTAMP_PATTERN: ConfigOption[str | None] = ConfigOption(
    "partition.time-extractor.timestamp-pattern",
    OptionType.STRING,
    None,
    "The text of the time of a partition, with $column for the values of its columns.",
)
TIMESTAMP_FORMATTER: ConfigOption[str | None] = ConfigOption(
    "partition.time-extractor.timestamp-formatter",
    OptionType.STRING,
    None,
    "The pattern of Java's DateTimeFormatter for that text.",
)

SINK_OPTIONS: tuple[ConfigOption[Any], ...] = (
    DEFAULT_NAME,
    FILE_SIZE,
    ROLLOVER_INTERVAL,
    INACTIVITY_INTERVAL,
    CHECK_INTERVAL,
    SHUFFLE_BY_PARTITION,
    AUTO_COMPACTION,
    COMPACTION_FILE_SIZE,
    POLICY_KIND,
    POLICY_CLASS,
    POLICY_ARGUMENTS,
    SUCCESS_FILE,
    TRIGGER,
    DELAY,
    WATERMARK_TIME_ZONE,
    EXTRACTOR_KIND,
    EXTRACTOR_CLASS,
    TIMESTAMP_PATTERN,
    TIMESTAMP_FORMATTER,
)

#: Format -> makes the compactor of its files.
_COMPACTORS = {
    "csv": FileCompactor.concat_file_compactor,
    "json": FileCompactor.concat_file_compactor,
    "orc": FileCompactor.orc_file_compactor,
    "avro": FileCompactor.avro_file_compactor,
    "parquet": FileCompactor.parquet_file_compactor,
}


def rolling_policy(options: TableOptions) -> TableRollingPolicy:
    """Returns when files are finished. Differs: at every checkpoint in all formats; Flink continues csv and json."""
    return TableRollingPolicy(options.get(FILE_SIZE), options.get(ROLLOVER_INTERVAL), options.get(INACTIVITY_INTERVAL))


def compactor_of(options: TableOptions, format_identifier: str) -> FileCompactor | None:
    """Returns how files are merged; None if they are not. Raises: UnsupportedOperationError."""
    if not options.get(AUTO_COMPACTION):
        return None
    if format_identifier not in _COMPACTORS:
        raise UnsupportedOperationError(
            f"'{AUTO_COMPACTION.key}' is not supported for files of the format '{format_identifier}', only for "
            + ", ".join(sorted(_COMPACTORS))
        )
    return _COMPACTORS[format_identifier]()


def compact_strategy(options: TableOptions) -> FileCompactStrategy:
    """Returns when files are merged, and how large merged files are."""
    target = options.get(COMPACTION_FILE_SIZE) or options.get(FILE_SIZE)
    return FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).set_target_size(target).build()


def check_shuffle(options: TableOptions) -> None:
    """Raises: UnsupportedOperationError if rows are to be sent to writers by their partitions."""
    if options.get(SHUFFLE_BY_PARTITION):
        raise UnsupportedOperationError(
            f"'{SHUFFLE_BY_PARTITION.key}' = 'true' is not supported: set 'sink.parallelism' = '1' or remove it"
        )


def success_file(options: TableOptions) -> str | None:
    """Returns the name of the file in complete partitions; None if there is none.

    Raises: ValidationError, UnsupportedOperationError for a policy that there is not.
    """
    kinds = _policy_kinds(options)
    if "metastore" in kinds:
        raise ValidationError(
            "Can not configure a 'metastore' partition commit policy for a file system table. You can only configure "
            "'metastore' partition commit policy for a hive table."
        )
    try:
        return success_file_of(
            {COMMIT_POLICY: ",".join(kinds - {"custom"}), SUCCESS_FILE_NAME: options.get(SUCCESS_FILE)}
        )
    except ConfigurationError as error:
        raise ValidationError(error.message, details={"option": COMMIT_POLICY}) from error


def _policy_kinds(options: TableOptions) -> set[str]:
    return {kind.strip().lower() for kind in (options.get(POLICY_KIND) or "").split(",")} - {""}


def custom_policy(options: TableOptions, is_bounded: bool) -> PolicyClass | None:
    """Returns the policy of the user; None if there is none.

    Raises: ValidationError, UnsupportedOperationError for one that cannot be used.
    """
    if "custom" not in _policy_kinds(options):
        return None
    path = options.get(POLICY_CLASS)
    if path is None:
        raise ValidationError(
            f"'{POLICY_KIND.key}' = 'custom' needs the option '{POLICY_CLASS.key}'",
            details={"option": POLICY_CLASS.key},
        )
    if is_bounded:
        raise UnsupportedOperationError(
            f"'{POLICY_KIND.key}' = 'custom' is not supported in batch mode, only success-file"
        )
    arguments = tuple(each for each in (options.get(POLICY_ARGUMENTS) or "").split(";") if each)
    found = PolicyClass(path, arguments)
    try:
        found.make()
    except ConfigurationError as error:
        raise ValidationError(error.message, details={"option": POLICY_CLASS.key, "value": path}) from error
    return found


def partition_commit(
    options: TableOptions, partition_keys: tuple[str, ...], is_bounded: bool = False
) -> PartitionCommitSettings | None:
    """Returns when a streaming job commits partitions; None if it does not. Raises: as `success_file`."""
    file_name, policy = success_file(options), custom_policy(options, is_bounded)
    if (file_name is None and policy is None) or not partition_keys:
        return None
    kind = options.get(EXTRACTOR_KIND).lower()
    if kind == "custom" or options.contains(EXTRACTOR_CLASS):
        raise UnsupportedOperationError(f"'{EXTRACTOR_KIND.key}': custom extractors are not supported, only default")
    if kind != "default":
        raise ValidationError(
            f"Unsupported kind of the time extractor: '{kind}'. '{EXTRACTOR_KIND.key}' must be 'default'.",
            details={"option": EXTRACTOR_KIND.key, "value": kind},
        )
    zone_name = options.get(WATERMARK_TIME_ZONE)
    try:
        zone = zone_of(zone_name)
        by_time = PartitionTimeExtractor(options.get(TIMESTAMP_PATTERN), options.get(TIMESTAMP_FORMATTER))
    except (ValueError, UnsupportedOperationError) as error:
        raise ValidationError(f"filesystem: {error}") from error
    extractor = by_time if options.get(TRIGGER) == "partition-time" else None
    return PartitionCommitSettings(file_name, extractor, options.get(DELAY), zone, policy)
