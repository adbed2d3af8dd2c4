"""Options of checkpoints, savepoints, recovery, and of sinks that commit with a checkpoint.

Source: org.apache.flink.configuration.{CheckpointingOptions,StateRecoveryOptions,SinkOptions}.
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

#: At shorter intervals a job would do nothing but checkpoints (Flink's CheckpointConfig.MINIMAL_CHECKPOINT_TIME).
MINIMAL_CHECKPOINT_TIME_MS = 10
#: The limit exists because metadata is read as a whole (Flink's FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD).
MAX_INLINE_THRESHOLD_BYTES = 1024 * 1024

INTERVAL = duration_option(
    "execution.checkpointing.interval",
    None,
    "Interval between the starts of two periodic checkpoints. If it is unset or 0, there are no periodic checkpoints.",
    minimum_ms=0,
)
INTERVAL_DURING_BACKLOG = duration_option(
    "execution.checkpointing.interval-during-backlog",
    None,
    "Checkpoint interval while a source processes a backlog, as a hybrid source does before it switches to its last "
    "source. 0 disables checkpoints during that time. Default: `execution.checkpointing.interval`.",
    minimum_ms=0,
)
MODE = enum_option(
    "execution.checkpointing.mode",
    ("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    "EXACTLY_ONCE",
    "Guarantee after a recovery: each record affects state exactly once or at least once.",
)
TIMEOUT = duration_option(
    "execution.checkpointing.timeout",
    "10 min",
    "Maximum duration of a checkpoint. A checkpoint that takes longer is aborted.",
    minimum_ms=MINIMAL_CHECKPOINT_TIME_MS,
)
MIN_PAUSE = duration_option(
    "execution.checkpointing.min-pause",
    "0 ms",
    "Minimum pause between the end of a checkpoint and the start of the next one.",
    minimum_ms=0,
)
MAX_CONCURRENT_CHECKPOINTS = int_option(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    "Maximum number of checkpoints that may be in progress at the same time.",
    minimum=1,
)
TOLERABLE_FAILED_CHECKPOINTS = int_option(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    "Number of consecutive checkpoint failures that the job tolerates. One more failure restarts the job.",
    minimum=0,
)
NUM_RETAINED = int_option(
    "execution.checkpointing.num-retained", 1, "Number of completed checkpoints to keep.", minimum=1
)
EXTERNALIZED_CHECKPOINT_RETENTION = enum_option(
    "execution.checkpointing.externalized-checkpoint-retention",
    ("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    "NO_EXTERNALIZED_CHECKPOINTS",
    "Which checkpoints are kept when the job ends. RETAIN_ON_CANCELLATION keeps them after a cancellation or a "
    "failure, DELETE_ON_CANCELLATION only after a failure, NO_EXTERNALIZED_CHECKPOINTS never.",
)
UNALIGNED = bool_option(
    "execution.checkpointing.unaligned.enabled",
    False,
    "Let checkpoint barriers overtake buffered records. Those records are stored in the checkpoint.",
)
UNALIGNED_FORCED = bool_option(
    "execution.checkpointing.unaligned.forced",
    False,
    "Use unaligned checkpoints even if the job has a custom partitioner, which makes rescaling from them impossible.",
)
ALIGNED_CHECKPOINT_TIMEOUT = duration_option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    "0 ms",
    "How long an unaligned checkpoint may stay aligned before its barriers overtake records. 0 lets them overtake "
    "at once.",
    minimum_ms=0,
)
UNALIGNED_MAX_SUBTASKS_PER_CHANNEL_STATE_FILE = without_effect(
    int_option(
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
        5,
        "Has no effect: each subtask stores its in-flight records in its own state file.",
        minimum=1,
    )
)
UNALIGNED_INTERRUPTIBLE_TIMERS = without_effect(
    bool_option(
        "execution.checkpointing.unaligned.interruptible-timers.enabled",
        False,
        "Has no effect: a barrier is processed after all timers that a watermark fires.",
    )
)
CHECKPOINTS_AFTER_TASKS_FINISH = bool_option(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    True,
    "Continue to take checkpoints after some tasks have finished.",
)
STORAGE = enum_option(
    "execution.checkpointing.storage",
    ("jobmanager", "filesystem"),
    None,
    "Where checkpoints are stored: `jobmanager` keeps them in the JobManager's own files, `filesystem` in "
    "`execution.checkpointing.dir`. Default: `filesystem` if that directory is set, otherwise `jobmanager`.",
)
DIRECTORY = string_option(
    "execution.checkpointing.dir", None, "Directory for checkpoints: a path or URI that all processes can access."
)
SAVEPOINT_DIRECTORY = string_option("execution.checkpointing.savepoint-dir", None, "Default directory for savepoints.")
CREATE_SUBDIR = bool_option(
    "execution.checkpointing.create-subdir",
    True,
    "Store the checkpoints of each job in a subdirectory named by the job id.",
)
DATA_INLINE_THRESHOLD = memory_option(
    "execution.checkpointing.data-inline-threshold",
    "20 kb",
    "State up to this size is stored in the checkpoint metadata instead of a separate file. The maximum is 1 MiB.",
)
WRITE_BUFFER_SIZE = int_option(
    "execution.checkpointing.write-buffer-size",
    4096,
    "Number of bytes to buffer before they are written to a checkpoint file.",
    minimum=0,
)
INCREMENTAL = bool_option(
    "execution.checkpointing.incremental",
    False,
    "Write only the changes since the previous checkpoint, if the state backend supports it.",
)
SNAPSHOT_COMPRESSION = bool_option(
    "execution.checkpointing.snapshot-compression", False, "Compress full snapshots of keyed state."
)
LOCAL_BACKUP = bool_option(
    "execution.checkpointing.local-backup.enabled",
    False,
    "Keep a copy of state files on the local disk of the TaskExecutor.",
)
LOCAL_BACKUP_DIRS = string_option(
    "execution.checkpointing.local-backup.dirs",
    None,
    "Directories for local copies of state files. Default: the working directory.",
)
CLEANER_PARALLEL_MODE = bool_option(
    "execution.checkpointing.cleaner.parallel-mode",
    True,
    "Delete the files of discarded checkpoints in parallel.",
)
RESTORE_PATH = string_option(
    "execution.state-recovery.path", None, "Path of the savepoint or retained checkpoint to start the job from."
)
CLAIM_MODE = enum_option(
    "execution.state-recovery.claim-mode",
    ("CLAIM", "NO_CLAIM", "LEGACY"),
    "NO_CLAIM",
    "Owner of the snapshot that the job is restored from. CLAIM: the job owns it and deletes it when it is no "
    "longer needed. NO_CLAIM: the user owns it, and the first checkpoint does not share files with it. LEGACY: the "
    "user owns it, but checkpoints may share files with it.",
)
IGNORE_UNCLAIMED_STATE = bool_option(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "Skip state that belongs to no operator of the job. If false, such state is an error.",
)
RESTORE_FROM_LOCAL = bool_option(
    "execution.state-recovery.from-local", False, "Restore from local copies of state files where they exist."
)
PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT = bool_option(
    "pipeline.sources.pause-until-first-checkpoint",
    False,
    "Hold back the first record of each source until the first checkpoint has started, so that after a recovery new "
    "records do not compete with restored in-flight records. Has no effect without periodic checkpoints.",
)

COMMITTER_RETRIES = int_option(
    "sink.committer.retries",
    10,
    "Maximum number of retries of a failed commit before the job fails.",
    minimum=0,
)
