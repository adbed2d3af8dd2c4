from flinkpy._proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SnapshotKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SNAPSHOT_KIND_UNSPECIFIED: _ClassVar[SnapshotKind]
    CHECKPOINT: _ClassVar[SnapshotKind]
    FULL_CHECKPOINT: _ClassVar[SnapshotKind]
    SAVEPOINT: _ClassVar[SnapshotKind]
    SYNC_SAVEPOINT_SUSPEND: _ClassVar[SnapshotKind]
    SYNC_SAVEPOINT_TERMINATE: _ClassVar[SnapshotKind]

class SavepointFormatType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SAVEPOINT_FORMAT_TYPE_UNSPECIFIED: _ClassVar[SavepointFormatType]
    CANONICAL: _ClassVar[SavepointFormatType]
    NATIVE: _ClassVar[SavepointFormatType]

class AlignmentType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ALIGNMENT_TYPE_UNSPECIFIED: _ClassVar[AlignmentType]
    AT_LEAST_ONCE: _ClassVar[AlignmentType]
    ALIGNED: _ClassVar[AlignmentType]
    UNALIGNED: _ClassVar[AlignmentType]
    FORCED_ALIGNED: _ClassVar[AlignmentType]

class OperatorStateModeMessage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATOR_STATE_MODE_UNSPECIFIED: _ClassVar[OperatorStateModeMessage]
    SPLIT_DISTRIBUTE: _ClassVar[OperatorStateModeMessage]
    UNION: _ClassVar[OperatorStateModeMessage]
    BROADCAST: _ClassVar[OperatorStateModeMessage]
SNAPSHOT_KIND_UNSPECIFIED: SnapshotKind
CHECKPOINT: SnapshotKind
FULL_CHECKPOINT: SnapshotKind
SAVEPOINT: SnapshotKind
SYNC_SAVEPOINT_SUSPEND: SnapshotKind
SYNC_SAVEPOINT_TERMINATE: SnapshotKind
SAVEPOINT_FORMAT_TYPE_UNSPECIFIED: SavepointFormatType
CANONICAL: SavepointFormatType
NATIVE: SavepointFormatType
ALIGNMENT_TYPE_UNSPECIFIED: AlignmentType
AT_LEAST_ONCE: AlignmentType
ALIGNED: AlignmentType
UNALIGNED: AlignmentType
FORCED_ALIGNED: AlignmentType
OPERATOR_STATE_MODE_UNSPECIFIED: OperatorStateModeMessage
SPLIT_DISTRIBUTE: OperatorStateModeMessage
UNION: OperatorStateModeMessage
BROADCAST: OperatorStateModeMessage

class CheckpointOptions(_message.Message):
    __slots__ = ("kind", "format", "alignment", "aligned_timeout_ms", "location")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ALIGNED_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    kind: SnapshotKind
    format: SavepointFormatType
    alignment: AlignmentType
    aligned_timeout_ms: int
    location: CheckpointLocation
    def __init__(self, kind: _Optional[_Union[SnapshotKind, str]] = ..., format: _Optional[_Union[SavepointFormatType, str]] = ..., alignment: _Optional[_Union[AlignmentType, str]] = ..., aligned_timeout_ms: _Optional[int] = ..., location: _Optional[_Union[CheckpointLocation, _Mapping]] = ...) -> None: ...

class CheckpointLocation(_message.Message):
    __slots__ = ("exclusive_directory", "shared_directory", "task_owned_directory", "inline_threshold_bytes", "max_inline_bytes")
    EXCLUSIVE_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    SHARED_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    TASK_OWNED_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    INLINE_THRESHOLD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_INLINE_BYTES_FIELD_NUMBER: _ClassVar[int]
    exclusive_directory: str
    shared_directory: str
    task_owned_directory: str
    inline_threshold_bytes: int
    max_inline_bytes: int
    def __init__(self, exclusive_directory: _Optional[str] = ..., shared_directory: _Optional[str] = ..., task_owned_directory: _Optional[str] = ..., inline_threshold_bytes: _Optional[int] = ..., max_inline_bytes: _Optional[int] = ...) -> None: ...

class StreamStateHandle(_message.Message):
    __slots__ = ("data", "path", "relative_path", "size_bytes", "sha256", "local_path", "compression", "stored_size_bytes")
    DATA_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    LOCAL_PATH_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    STORED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    path: str
    relative_path: str
    size_bytes: int
    sha256: bytes
    local_path: str
    compression: str
    stored_size_bytes: int
    def __init__(self, data: _Optional[bytes] = ..., path: _Optional[str] = ..., relative_path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[bytes] = ..., local_path: _Optional[str] = ..., compression: _Optional[str] = ..., stored_size_bytes: _Optional[int] = ...) -> None: ...

class KeyGroupRangeMessage(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class KeyGroupsStateHandle(_message.Message):
    __slots__ = ("key_groups", "file", "offsets")
    KEY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    key_groups: KeyGroupRangeMessage
    file: StreamStateHandle
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, key_groups: _Optional[_Union[KeyGroupRangeMessage, _Mapping]] = ..., file: _Optional[_Union[StreamStateHandle, _Mapping]] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class IncrementalKeyedStateHandle(_message.Message):
    __slots__ = ("backend_id", "key_groups", "checkpoint_id", "shared", "private", "meta")
    class LocalFile(_message.Message):
        __slots__ = ("local_name", "handle")
        LOCAL_NAME_FIELD_NUMBER: _ClassVar[int]
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        local_name: str
        handle: StreamStateHandle
        def __init__(self, local_name: _Optional[str] = ..., handle: _Optional[_Union[StreamStateHandle, _Mapping]] = ...) -> None: ...
    BACKEND_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    backend_id: str
    key_groups: KeyGroupRangeMessage
    checkpoint_id: int
    shared: _containers.RepeatedCompositeFieldContainer[IncrementalKeyedStateHandle.LocalFile]
    private: _containers.RepeatedCompositeFieldContainer[IncrementalKeyedStateHandle.LocalFile]
    meta: StreamStateHandle
    def __init__(self, backend_id: _Optional[str] = ..., key_groups: _Optional[_Union[KeyGroupRangeMessage, _Mapping]] = ..., checkpoint_id: _Optional[int] = ..., shared: _Optional[_Iterable[_Union[IncrementalKeyedStateHandle.LocalFile, _Mapping]]] = ..., private: _Optional[_Iterable[_Union[IncrementalKeyedStateHandle.LocalFile, _Mapping]]] = ..., meta: _Optional[_Union[StreamStateHandle, _Mapping]] = ...) -> None: ...

class KeyedStateHandle(_message.Message):
    __slots__ = ("key_groups", "incremental")
    KEY_GROUPS_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    key_groups: KeyGroupsStateHandle
    incremental: IncrementalKeyedStateHandle
    def __init__(self, key_groups: _Optional[_Union[KeyGroupsStateHandle, _Mapping]] = ..., incremental: _Optional[_Union[IncrementalKeyedStateHandle, _Mapping]] = ...) -> None: ...

class OperatorStateHandle(_message.Message):
    __slots__ = ("file", "states")
    class Elements(_message.Message):
        __slots__ = ("name", "mode", "offsets", "lengths")
        NAME_FIELD_NUMBER: _ClassVar[int]
        MODE_FIELD_NUMBER: _ClassVar[int]
        OFFSETS_FIELD_NUMBER: _ClassVar[int]
        LENGTHS_FIELD_NUMBER: _ClassVar[int]
        name: str
        mode: OperatorStateModeMessage
        offsets: _containers.RepeatedScalarFieldContainer[int]
        lengths: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[OperatorStateModeMessage, str]] = ..., offsets: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ...) -> None: ...
    FILE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    file: StreamStateHandle
    states: _containers.RepeatedCompositeFieldContainer[OperatorStateHandle.Elements]
    def __init__(self, file: _Optional[_Union[StreamStateHandle, _Mapping]] = ..., states: _Optional[_Iterable[_Union[OperatorStateHandle.Elements, _Mapping]]] = ...) -> None: ...

class ChannelStateHandle(_message.Message):
    __slots__ = ("is_output", "edge_index", "subtask_index", "channel_index", "file", "offsets", "lengths")
    IS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    EDGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_INDEX_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    is_output: bool
    edge_index: int
    subtask_index: int
    channel_index: int
    file: StreamStateHandle
    offsets: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, is_output: _Optional[bool] = ..., edge_index: _Optional[int] = ..., subtask_index: _Optional[int] = ..., channel_index: _Optional[int] = ..., file: _Optional[_Union[StreamStateHandle, _Mapping]] = ..., offsets: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ...) -> None: ...

class OperatorSubtaskState(_message.Message):
    __slots__ = ("keyed", "operator", "channels", "filter_channels")
    KEYED_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FILTER_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    keyed: _containers.RepeatedCompositeFieldContainer[KeyedStateHandle]
    operator: _containers.RepeatedCompositeFieldContainer[OperatorStateHandle]
    channels: _containers.RepeatedCompositeFieldContainer[ChannelStateHandle]
    filter_channels: bool
    def __init__(self, keyed: _Optional[_Iterable[_Union[KeyedStateHandle, _Mapping]]] = ..., operator: _Optional[_Iterable[_Union[OperatorStateHandle, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[ChannelStateHandle, _Mapping]]] = ..., filter_channels: _Optional[bool] = ...) -> None: ...

class TaskStateSnapshot(_message.Message):
    __slots__ = ("operators", "is_finished", "has_reached_end")
    class OperatorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OperatorSubtaskState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OperatorSubtaskState, _Mapping]] = ...) -> None: ...
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    IS_FINISHED_FIELD_NUMBER: _ClassVar[int]
    HAS_REACHED_END_FIELD_NUMBER: _ClassVar[int]
    operators: _containers.MessageMap[str, OperatorSubtaskState]
    is_finished: bool
    has_reached_end: bool
    def __init__(self, operators: _Optional[_Mapping[str, OperatorSubtaskState]] = ..., is_finished: _Optional[bool] = ..., has_reached_end: _Optional[bool] = ...) -> None: ...

class OperatorState(_message.Message):
    __slots__ = ("operator_id", "uid", "name", "parallelism", "max_parallelism", "subtasks", "coordinator", "is_fully_finished", "finished_subtasks")
    class SubtasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: OperatorSubtaskState
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[OperatorSubtaskState, _Mapping]] = ...) -> None: ...
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    IS_FULLY_FINISHED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    operator_id: str
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: _containers.MessageMap[int, OperatorSubtaskState]
    coordinator: StreamStateHandle
    is_fully_finished: bool
    finished_subtasks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, operator_id: _Optional[str] = ..., uid: _Optional[str] = ..., name: _Optional[str] = ..., parallelism: _Optional[int] = ..., max_parallelism: _Optional[int] = ..., subtasks: _Optional[_Mapping[int, OperatorSubtaskState]] = ..., coordinator: _Optional[_Union[StreamStateHandle, _Mapping]] = ..., is_fully_finished: _Optional[bool] = ..., finished_subtasks: _Optional[_Iterable[int]] = ...) -> None: ...

class CheckpointMetadata(_message.Message):
    __slots__ = ("version", "flinkpy_version", "job_id", "job_name", "checkpoint_id", "timestamp_ms", "kind", "format", "is_unaligned", "operators", "master_states", "python_version")
    class MasterStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FLINKPY_VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    IS_UNALIGNED_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    MASTER_STATES_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    flinkpy_version: str
    job_id: str
    job_name: str
    checkpoint_id: int
    timestamp_ms: int
    kind: SnapshotKind
    format: SavepointFormatType
    is_unaligned: bool
    operators: _containers.RepeatedCompositeFieldContainer[OperatorState]
    master_states: _containers.ScalarMap[str, bytes]
    python_version: str
    def __init__(self, version: _Optional[int] = ..., flinkpy_version: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., checkpoint_id: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., kind: _Optional[_Union[SnapshotKind, str]] = ..., format: _Optional[_Union[SavepointFormatType, str]] = ..., is_unaligned: _Optional[bool] = ..., operators: _Optional[_Iterable[_Union[OperatorState, _Mapping]]] = ..., master_states: _Optional[_Mapping[str, bytes]] = ..., python_version: _Optional[str] = ...) -> None: ...

class CheckpointMetrics(_message.Message):
    __slots__ = ("bytes_processed_during_alignment", "bytes_persisted_during_alignment", "alignment_duration_ns", "sync_duration_ns", "async_duration_ns", "checkpoint_start_delay_ns", "is_unaligned", "bytes_persisted", "state_size_bytes")
    BYTES_PROCESSED_DURING_ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_PERSISTED_DURING_ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    SYNC_DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    ASYNC_DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_START_DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    IS_UNALIGNED_FIELD_NUMBER: _ClassVar[int]
    BYTES_PERSISTED_FIELD_NUMBER: _ClassVar[int]
    STATE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes_processed_during_alignment: int
    bytes_persisted_during_alignment: int
    alignment_duration_ns: int
    sync_duration_ns: int
    async_duration_ns: int
    checkpoint_start_delay_ns: int
    is_unaligned: bool
    bytes_persisted: int
    state_size_bytes: int
    def __init__(self, bytes_processed_during_alignment: _Optional[int] = ..., bytes_persisted_during_alignment: _Optional[int] = ..., alignment_duration_ns: _Optional[int] = ..., sync_duration_ns: _Optional[int] = ..., async_duration_ns: _Optional[int] = ..., checkpoint_start_delay_ns: _Optional[int] = ..., is_unaligned: _Optional[bool] = ..., bytes_persisted: _Optional[int] = ..., state_size_bytes: _Optional[int] = ...) -> None: ...

class TriggerCheckpointsRequest(_message.Message):
    __slots__ = ("job_id", "checkpoint_id", "timestamp_ms", "options", "execution_attempt_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions
    execution_attempt_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., checkpoint_id: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., options: _Optional[_Union[CheckpointOptions, _Mapping]] = ..., execution_attempt_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckpointNotification(_message.Message):
    __slots__ = ("job_id", "checkpoint_id", "timestamp_ms", "latest_completed_checkpoint_id", "execution_attempt_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LATEST_COMPLETED_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    checkpoint_id: int
    timestamp_ms: int
    latest_completed_checkpoint_id: int
    execution_attempt_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., checkpoint_id: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., latest_completed_checkpoint_id: _Optional[int] = ..., execution_attempt_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class AcknowledgeCheckpointRequest(_message.Message):
    __slots__ = ("job_id", "execution_attempt_id", "checkpoint_id", "metrics", "state")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    execution_attempt_id: str
    checkpoint_id: int
    metrics: CheckpointMetrics
    state: TaskStateSnapshot
    def __init__(self, job_id: _Optional[str] = ..., execution_attempt_id: _Optional[str] = ..., checkpoint_id: _Optional[int] = ..., metrics: _Optional[_Union[CheckpointMetrics, _Mapping]] = ..., state: _Optional[_Union[TaskStateSnapshot, _Mapping]] = ...) -> None: ...

class DeclineCheckpointRequest(_message.Message):
    __slots__ = ("job_id", "execution_attempt_id", "checkpoint_id", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    execution_attempt_id: str
    checkpoint_id: int
    reason: _common_pb2.ErrorInfo
    def __init__(self, job_id: _Optional[str] = ..., execution_attempt_id: _Optional[str] = ..., checkpoint_id: _Optional[int] = ..., reason: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ...) -> None: ...

class EndOfDataNotification(_message.Message):
    __slots__ = ("job_id", "execution_attempt_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    execution_attempt_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., execution_attempt_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class TriggerCheckpointRequest(_message.Message):
    __slots__ = ("job_id", "trigger_id", "full")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    trigger_id: str
    full: bool
    def __init__(self, job_id: _Optional[str] = ..., trigger_id: _Optional[str] = ..., full: _Optional[bool] = ...) -> None: ...

class TriggerSavepointRequest(_message.Message):
    __slots__ = ("job_id", "trigger_id", "target_directory", "format", "cancel_job")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOB_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    trigger_id: str
    target_directory: str
    format: SavepointFormatType
    cancel_job: bool
    def __init__(self, job_id: _Optional[str] = ..., trigger_id: _Optional[str] = ..., target_directory: _Optional[str] = ..., format: _Optional[_Union[SavepointFormatType, str]] = ..., cancel_job: _Optional[bool] = ...) -> None: ...

class StopWithSavepointRequest(_message.Message):
    __slots__ = ("job_id", "trigger_id", "target_directory", "format", "drain")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    trigger_id: str
    target_directory: str
    format: SavepointFormatType
    drain: bool
    def __init__(self, job_id: _Optional[str] = ..., trigger_id: _Optional[str] = ..., target_directory: _Optional[str] = ..., format: _Optional[_Union[SavepointFormatType, str]] = ..., drain: _Optional[bool] = ...) -> None: ...

class CheckpointResult(_message.Message):
    __slots__ = ("checkpoint_id", "path")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    path: str
    def __init__(self, checkpoint_id: _Optional[int] = ..., path: _Optional[str] = ...) -> None: ...

class DisposeSavepointRequest(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class CheckpointStatisticsRequest(_message.Message):
    __slots__ = ("job_id", "without_subtasks", "checkpoint_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    without_subtasks: bool
    checkpoint_id: int
    def __init__(self, job_id: _Optional[str] = ..., without_subtasks: _Optional[bool] = ..., checkpoint_id: _Optional[int] = ...) -> None: ...

class SubtaskCheckpointStatistics(_message.Message):
    __slots__ = ("subtask_index", "ack_timestamp_ms", "metrics")
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    ACK_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    subtask_index: int
    ack_timestamp_ms: int
    metrics: CheckpointMetrics
    def __init__(self, subtask_index: _Optional[int] = ..., ack_timestamp_ms: _Optional[int] = ..., metrics: _Optional[_Union[CheckpointMetrics, _Mapping]] = ...) -> None: ...

class VertexCheckpointStatistics(_message.Message):
    __slots__ = ("vertex_id", "num_subtasks", "subtasks", "num_acknowledged_subtasks", "latest_ack_timestamp_ms", "state_size_bytes", "persisted_bytes", "processed_in_flight_bytes", "persisted_in_flight_bytes")
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    NUM_ACKNOWLEDGED_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    LATEST_ACK_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PERSISTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PERSISTED_IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    vertex_id: str
    num_subtasks: int
    subtasks: _containers.RepeatedCompositeFieldContainer[SubtaskCheckpointStatistics]
    num_acknowledged_subtasks: int
    latest_ack_timestamp_ms: int
    state_size_bytes: int
    persisted_bytes: int
    processed_in_flight_bytes: int
    persisted_in_flight_bytes: int
    def __init__(self, vertex_id: _Optional[str] = ..., num_subtasks: _Optional[int] = ..., subtasks: _Optional[_Iterable[_Union[SubtaskCheckpointStatistics, _Mapping]]] = ..., num_acknowledged_subtasks: _Optional[int] = ..., latest_ack_timestamp_ms: _Optional[int] = ..., state_size_bytes: _Optional[int] = ..., persisted_bytes: _Optional[int] = ..., processed_in_flight_bytes: _Optional[int] = ..., persisted_in_flight_bytes: _Optional[int] = ...) -> None: ...

class CheckpointStatistics(_message.Message):
    __slots__ = ("checkpoint_id", "status", "kind", "trigger_timestamp_ms", "end_timestamp_ms", "state_size_bytes", "persisted_bytes", "processed_in_flight_bytes", "persisted_in_flight_bytes", "num_subtasks", "num_acknowledged_subtasks", "external_path", "discarded", "failure", "vertices", "is_unaligned", "format", "latest_ack_timestamp_ms", "metadata_bytes")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    END_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PERSISTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PERSISTED_IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUM_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    NUM_ACKNOWLEDGED_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_PATH_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    IS_UNALIGNED_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    LATEST_ACK_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    status: str
    kind: SnapshotKind
    trigger_timestamp_ms: int
    end_timestamp_ms: int
    state_size_bytes: int
    persisted_bytes: int
    processed_in_flight_bytes: int
    persisted_in_flight_bytes: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    external_path: str
    discarded: bool
    failure: _common_pb2.ErrorInfo
    vertices: _containers.RepeatedCompositeFieldContainer[VertexCheckpointStatistics]
    is_unaligned: bool
    format: SavepointFormatType
    latest_ack_timestamp_ms: int
    metadata_bytes: int
    def __init__(self, checkpoint_id: _Optional[int] = ..., status: _Optional[str] = ..., kind: _Optional[_Union[SnapshotKind, str]] = ..., trigger_timestamp_ms: _Optional[int] = ..., end_timestamp_ms: _Optional[int] = ..., state_size_bytes: _Optional[int] = ..., persisted_bytes: _Optional[int] = ..., processed_in_flight_bytes: _Optional[int] = ..., persisted_in_flight_bytes: _Optional[int] = ..., num_subtasks: _Optional[int] = ..., num_acknowledged_subtasks: _Optional[int] = ..., external_path: _Optional[str] = ..., discarded: _Optional[bool] = ..., failure: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ..., vertices: _Optional[_Iterable[_Union[VertexCheckpointStatistics, _Mapping]]] = ..., is_unaligned: _Optional[bool] = ..., format: _Optional[_Union[SavepointFormatType, str]] = ..., latest_ack_timestamp_ms: _Optional[int] = ..., metadata_bytes: _Optional[int] = ...) -> None: ...

class RestoredCheckpointStatistics(_message.Message):
    __slots__ = ("checkpoint_id", "restore_timestamp_ms", "is_savepoint", "external_path")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    RESTORE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    IS_SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_PATH_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    restore_timestamp_ms: int
    is_savepoint: bool
    external_path: str
    def __init__(self, checkpoint_id: _Optional[int] = ..., restore_timestamp_ms: _Optional[int] = ..., is_savepoint: _Optional[bool] = ..., external_path: _Optional[str] = ...) -> None: ...

class CheckpointSummary(_message.Message):
    __slots__ = ("state_size_bytes", "persisted_bytes", "duration_ms", "processed_in_flight_bytes", "persisted_in_flight_bytes")
    class Statistic(_message.Message):
        __slots__ = ("minimum", "maximum", "average", "p50", "p90", "p95", "p99", "p999")
        MINIMUM_FIELD_NUMBER: _ClassVar[int]
        MAXIMUM_FIELD_NUMBER: _ClassVar[int]
        AVERAGE_FIELD_NUMBER: _ClassVar[int]
        P50_FIELD_NUMBER: _ClassVar[int]
        P90_FIELD_NUMBER: _ClassVar[int]
        P95_FIELD_NUMBER: _ClassVar[int]
        P99_FIELD_NUMBER: _ClassVar[int]
        P999_FIELD_NUMBER: _ClassVar[int]
        minimum: int
        maximum: int
        average: int
        p50: int
        p90: int
        p95: int
        p99: int
        p999: int
        def __init__(self, minimum: _Optional[int] = ..., maximum: _Optional[int] = ..., average: _Optional[int] = ..., p50: _Optional[int] = ..., p90: _Optional[int] = ..., p95: _Optional[int] = ..., p99: _Optional[int] = ..., p999: _Optional[int] = ...) -> None: ...
    STATE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PERSISTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PERSISTED_IN_FLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    state_size_bytes: CheckpointSummary.Statistic
    persisted_bytes: CheckpointSummary.Statistic
    duration_ms: CheckpointSummary.Statistic
    processed_in_flight_bytes: CheckpointSummary.Statistic
    persisted_in_flight_bytes: CheckpointSummary.Statistic
    def __init__(self, state_size_bytes: _Optional[_Union[CheckpointSummary.Statistic, _Mapping]] = ..., persisted_bytes: _Optional[_Union[CheckpointSummary.Statistic, _Mapping]] = ..., duration_ms: _Optional[_Union[CheckpointSummary.Statistic, _Mapping]] = ..., processed_in_flight_bytes: _Optional[_Union[CheckpointSummary.Statistic, _Mapping]] = ..., persisted_in_flight_bytes: _Optional[_Union[CheckpointSummary.Statistic, _Mapping]] = ...) -> None: ...

class CheckpointStatisticsResponse(_message.Message):
    __slots__ = ("num_restored", "num_total", "num_in_progress", "num_completed", "num_failed", "latest_completed", "latest_savepoint", "latest_failed", "latest_restored", "history", "summary")
    NUM_RESTORED_FIELD_NUMBER: _ClassVar[int]
    NUM_TOTAL_FIELD_NUMBER: _ClassVar[int]
    NUM_IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    NUM_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    NUM_FAILED_FIELD_NUMBER: _ClassVar[int]
    LATEST_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    LATEST_SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    LATEST_FAILED_FIELD_NUMBER: _ClassVar[int]
    LATEST_RESTORED_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    num_restored: int
    num_total: int
    num_in_progress: int
    num_completed: int
    num_failed: int
    latest_completed: CheckpointStatistics
    latest_savepoint: CheckpointStatistics
    latest_failed: CheckpointStatistics
    latest_restored: RestoredCheckpointStatistics
    history: _containers.RepeatedCompositeFieldContainer[CheckpointStatistics]
    summary: CheckpointSummary
    def __init__(self, num_restored: _Optional[int] = ..., num_total: _Optional[int] = ..., num_in_progress: _Optional[int] = ..., num_completed: _Optional[int] = ..., num_failed: _Optional[int] = ..., latest_completed: _Optional[_Union[CheckpointStatistics, _Mapping]] = ..., latest_savepoint: _Optional[_Union[CheckpointStatistics, _Mapping]] = ..., latest_failed: _Optional[_Union[CheckpointStatistics, _Mapping]] = ..., latest_restored: _Optional[_Union[RestoredCheckpointStatistics, _Mapping]] = ..., history: _Optional[_Iterable[_Union[CheckpointStatistics, _Mapping]]] = ..., summary: _Optional[_Union[CheckpointSummary, _Mapping]] = ...) -> None: ...

class TaskRestore(_message.Message):
    __slots__ = ("checkpoint_id", "state")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    state: TaskStateSnapshot
    def __init__(self, checkpoint_id: _Optional[int] = ..., state: _Optional[_Union[TaskStateSnapshot, _Mapping]] = ...) -> None: ...

class CompletedCheckpointPointers(_message.Message):
    __slots__ = ("pointers", "next_checkpoint_id")
    class Pointer(_message.Message):
        __slots__ = ("checkpoint_id", "external_path", "is_owned", "job_id", "metadata_sha256")
        CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
        EXTERNAL_PATH_FIELD_NUMBER: _ClassVar[int]
        IS_OWNED_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        METADATA_SHA256_FIELD_NUMBER: _ClassVar[int]
        checkpoint_id: int
        external_path: str
        is_owned: bool
        job_id: str
        metadata_sha256: bytes
        def __init__(self, checkpoint_id: _Optional[int] = ..., external_path: _Optional[str] = ..., is_owned: _Optional[bool] = ..., job_id: _Optional[str] = ..., metadata_sha256: _Optional[bytes] = ...) -> None: ...
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    pointers: _containers.RepeatedCompositeFieldContainer[CompletedCheckpointPointers.Pointer]
    next_checkpoint_id: int
    def __init__(self, pointers: _Optional[_Iterable[_Union[CompletedCheckpointPointers.Pointer, _Mapping]]] = ..., next_checkpoint_id: _Optional[int] = ...) -> None: ...
