"""Checkpoints, savepoints and the recovery from them.

Source: org.apache.flink.configuration.{CheckpointingOptions,StateRecoveryOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    int_option,
    memory_option,
    string_option,
    without_effect,
)

#: A checkpoint that comes more often than this does nothing else (Flink's CheckpointConfig.MINIMAL_CHECKPOINT_TIME).
MINIMAL_CHECKPOINT_TIME_MS = 10
#: Metadata is read whole (Flink's FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD).
MAX_INLINE_THRESHOLD_BYTES = 1024 * 1024

INTERVAL = duration_option(
    "execution.checkpointing.interval",
    None,
    "Time between the starts of two periodic checkpoints; there are none where it is unset or 0.",
    minimum_ms=0,
)
INTERVAL_DURING_BACKLOG = duration_option(
    "execution.checkpointing.interval-during-backlog",
    None,
    "The same while a source reads a backlog, as a hybrid source does before its last; 0: no checkpoints meanwhile.",
    minimum_ms=0,
)
MODE = enum_option(
    "execution.checkpointing.mode",
    ("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    "EXACTLY_ONCE",
    "What a recovery promises for each record's effect on state.",
)
TIMEOUT = duration_option(
    "execution.checkpointing.timeout",
    "10 min",
    "A checkpoint that is not complete after this is given up.",
    minimum_ms=MINIMAL_CHECKPOINT_TIME_MS,
)
MIN_PAUSE = duration_option(
    "execution.checkpointing.min-pause",
    "0 ms",
    "Least time between the end of a checkpoint and the start of the next.",
    minimum_ms=0,
)
MAX_CONCURRENT_CHECKPOINTS = int_option(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    "Checkpoints that may be under way at the same time.",
    minimum=1,
)
TOLERABLE_FAILED_CHECKPOINTS = int_option(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    "Checkpoints that may fail in a row before the job is restarted.",
    minimum=0,
)
NUM_RETAINED = int_option("execution.checkpointing.num-retained", 1, "Completed checkpoints that are kept.", minimum=1)
EXTERNALIZED_CHECKPOINT_RETENTION = enum_option(
    "execution.checkpointing.externalized-checkpoint-retention",
    ("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    "NO_EXTERNALIZED_CHECKPOINTS",
    "Whether the last checkpoints stay when the job ends: RETAIN_ON_CANCELLATION after a cancellation or failure, "
    "DELETE_ON_CANCELLATION after a failure, NO_EXTERNALIZED_CHECKPOINTS never.",
)
UNALIGNED = bool_option(
    "execution.checkpointing.unaligned.enabled",
    False,
    "Whether barriers overtake the records in flight, which become part of the checkpoint.",
)
UNALIGNED_FORCED = bool_option(
    "execution.checkpointing.unaligned.forced",
    False,
    "Whether checkpoints are unaligned even where a custom partitioner makes rescaling them impossible.",
)
ALIGNED_CHECKPOINT_TIMEOUT = duration_option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    "0 ms",
    "With unaligned checkpoints: how long one stays aligned before barriers overtake; 0: they overtake at once.",
    minimum_ms=0,
)
UNALIGNED_MAX_SUBTASKS_PER_CHANNEL_STATE_FILE = without_effect(
    int_option(
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
        5,
        "Every subtask's records in flight are in the file of its state.",
        minimum=1,
    )
)
UNALIGNED_INTERRUPTIBLE_TIMERS = without_effect(
    bool_option(
        "execution.checkpointing.unaligned.interruptible-timers.enabled",
        False,
        "A barrier comes behind the timers of a watermark.",
    )
)
CHECKPOINTS_AFTER_TASKS_FINISH = bool_option(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    True,
    "Whether checkpoints go on when some tasks have finished.",
)
STORAGE = enum_option(
    "execution.checkpointing.storage",
    ("jobmanager", "filesystem"),
    None,
    "Where checkpoints are: `jobmanager` in its own files, `filesystem` in execution.checkpointing.dir. Unset: "
    "`filesystem` where that directory is set, else `jobmanager`.",
)
DIRECTORY = string_option(
    "execution.checkpointing.dir", None, "Directory of checkpoints, a path or URI that all processes can reach."
)
SAVEPOINT_DIRECTORY = string_option(
    "execution.checkpointing.savepoint-dir", None, "Directory of savepoints that are asked for without one."
)
CREATE_SUBDIR = bool_option(
    "execution.checkpointing.create-subdir", True, "Whether each job has a directory of its own, named by its id."
)
DATA_INLINE_THRESHOLD = memory_option(
    "execution.checkpointing.data-inline-threshold",
    "20 kb",
    "State up to this size goes into the metadata instead of a file of its own; at most 1 MiB.",
)
WRITE_BUFFER_SIZE = int_option(
    "execution.checkpointing.write-buffer-size",
    4096,
    "Bytes that are collected before they are written to a file.",
    minimum=0,
)
INCREMENTAL = bool_option(
    "execution.checkpointing.incremental",
    False,
    "Whether a checkpoint writes only what has changed since the last, where the state backend can.",
)
SNAPSHOT_COMPRESSION = bool_option(
    "execution.checkpointing.snapshot-compression", False, "Whether full snapshots of keyed state are compressed."
)
LOCAL_BACKUP = bool_option(
    "execution.checkpointing.local-backup.enabled",
    False,
    "Whether TaskExecutors keep a copy of state files on their own disks.",
)
LOCAL_BACKUP_DIRS = string_option(
    "execution.checkpointing.local-backup.dirs", None, "Directories of those copies; the working directory where unset."
)
CLEANER_PARALLEL_MODE = bool_option(
    "execution.checkpointing.cleaner.parallel-mode",
    True,
    "Whether files of dropped checkpoints are removed in parallel.",
)
RESTORE_PATH = string_option(
    "execution.state-recovery.path", None, "Savepoint or retained checkpoint that the job starts from."
)
CLAIM_MODE = enum_option(
    "execution.state-recovery.claim-mode",
    ("CLAIM", "NO_CLAIM", "LEGACY"),
    "NO_CLAIM",
    "Whose the restored snapshot is: CLAIM the job's, which removes it when it is no longer needed; NO_CLAIM the "
    "user's, and the first checkpoint shares no file with it; LEGACY the user's, and checkpoints may share files.",
)
IGNORE_UNCLAIMED_STATE = bool_option(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "Whether state of operators that the job does not have is left out instead of being an error.",
)
RESTORE_FROM_LOCAL = bool_option(
    "execution.state-recovery.from-local", False, "Whether local copies of state files are read where they exist."
)
PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT = bool_option(
    "pipeline.sources.pause-until-first-checkpoint",
    False,
    "Whether sources wait with their first record until the first checkpoint has begun, so that after a recovery "
    "records that were in flight do not compete with new ones. Without effect where there are no periodic checkpoints.",
)
