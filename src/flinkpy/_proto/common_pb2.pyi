from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATUS_UNSPECIFIED: _ClassVar[JobStatus]
    INITIALIZING: _ClassVar[JobStatus]
    CREATED: _ClassVar[JobStatus]
    RUNNING: _ClassVar[JobStatus]
    FAILING: _ClassVar[JobStatus]
    FAILED: _ClassVar[JobStatus]
    CANCELLING: _ClassVar[JobStatus]
    CANCELED: _ClassVar[JobStatus]
    FINISHED: _ClassVar[JobStatus]
    RESTARTING: _ClassVar[JobStatus]
    SUSPENDED: _ClassVar[JobStatus]
    RECONCILING: _ClassVar[JobStatus]

class ExecutionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTION_STATE_UNSPECIFIED: _ClassVar[ExecutionState]
    EXECUTION_CREATED: _ClassVar[ExecutionState]
    EXECUTION_SCHEDULED: _ClassVar[ExecutionState]
    EXECUTION_DEPLOYING: _ClassVar[ExecutionState]
    EXECUTION_INITIALIZING: _ClassVar[ExecutionState]
    EXECUTION_RUNNING: _ClassVar[ExecutionState]
    EXECUTION_FINISHED: _ClassVar[ExecutionState]
    EXECUTION_CANCELING: _ClassVar[ExecutionState]
    EXECUTION_CANCELED: _ClassVar[ExecutionState]
    EXECUTION_FAILED: _ClassVar[ExecutionState]

class ErrorDomain(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_DOMAIN_UNSPECIFIED: _ClassVar[ErrorDomain]
    USER: _ClassVar[ErrorDomain]
    EXTERNAL: _ClassVar[ErrorDomain]
    INTERNAL: _ClassVar[ErrorDomain]

class ErrorRetry(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_RETRY_UNSPECIFIED: _ClassVar[ErrorRetry]
    NEVER: _ClassVar[ErrorRetry]
    RESTART: _ClassVar[ErrorRetry]
    BACKOFF: _ClassVar[ErrorRetry]
JOB_STATUS_UNSPECIFIED: JobStatus
INITIALIZING: JobStatus
CREATED: JobStatus
RUNNING: JobStatus
FAILING: JobStatus
FAILED: JobStatus
CANCELLING: JobStatus
CANCELED: JobStatus
FINISHED: JobStatus
RESTARTING: JobStatus
SUSPENDED: JobStatus
RECONCILING: JobStatus
EXECUTION_STATE_UNSPECIFIED: ExecutionState
EXECUTION_CREATED: ExecutionState
EXECUTION_SCHEDULED: ExecutionState
EXECUTION_DEPLOYING: ExecutionState
EXECUTION_INITIALIZING: ExecutionState
EXECUTION_RUNNING: ExecutionState
EXECUTION_FINISHED: ExecutionState
EXECUTION_CANCELING: ExecutionState
EXECUTION_CANCELED: ExecutionState
EXECUTION_FAILED: ExecutionState
ERROR_DOMAIN_UNSPECIFIED: ErrorDomain
USER: ErrorDomain
EXTERNAL: ErrorDomain
INTERNAL: ErrorDomain
ERROR_RETRY_UNSPECIFIED: ErrorRetry
NEVER: ErrorRetry
RESTART: ErrorRetry
BACKOFF: ErrorRetry

class Acknowledge(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResourceProfile(_message.Message):
    __slots__ = ("cpu_cores", "task_heap_bytes", "task_off_heap_bytes", "managed_bytes", "network_bytes", "external", "is_any")
    class ExternalEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CPU_CORES_FIELD_NUMBER: _ClassVar[int]
    TASK_HEAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    TASK_OFF_HEAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    MANAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_FIELD_NUMBER: _ClassVar[int]
    IS_ANY_FIELD_NUMBER: _ClassVar[int]
    cpu_cores: float
    task_heap_bytes: int
    task_off_heap_bytes: int
    managed_bytes: int
    network_bytes: int
    external: _containers.ScalarMap[str, float]
    is_any: bool
    def __init__(self, cpu_cores: _Optional[float] = ..., task_heap_bytes: _Optional[int] = ..., task_off_heap_bytes: _Optional[int] = ..., managed_bytes: _Optional[int] = ..., network_bytes: _Optional[int] = ..., external: _Optional[_Mapping[str, float]] = ..., is_any: _Optional[bool] = ...) -> None: ...

class ErrorInfo(_message.Message):
    __slots__ = ("type", "message", "domain", "retry", "traceback", "details", "cause")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    domain: ErrorDomain
    retry: ErrorRetry
    traceback: str
    details: _containers.ScalarMap[str, str]
    cause: ErrorInfo
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., domain: _Optional[_Union[ErrorDomain, str]] = ..., retry: _Optional[_Union[ErrorRetry, str]] = ..., traceback: _Optional[str] = ..., details: _Optional[_Mapping[str, str]] = ..., cause: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class Configuration(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.ScalarMap[str, str]
    def __init__(self, entries: _Optional[_Mapping[str, str]] = ...) -> None: ...

class IOMetrics(_message.Message):
    __slots__ = ("num_records_in", "num_records_out", "num_bytes_in", "num_bytes_out", "num_batches_in", "num_batches_out", "idle_time_ms", "busy_time_ms", "back_pressured_time_ms")
    NUM_RECORDS_IN_FIELD_NUMBER: _ClassVar[int]
    NUM_RECORDS_OUT_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    NUM_BATCHES_IN_FIELD_NUMBER: _ClassVar[int]
    NUM_BATCHES_OUT_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    BUSY_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    BACK_PRESSURED_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    num_records_in: int
    num_records_out: int
    num_bytes_in: int
    num_bytes_out: int
    num_batches_in: int
    num_batches_out: int
    idle_time_ms: int
    busy_time_ms: int
    back_pressured_time_ms: int
    def __init__(self, num_records_in: _Optional[int] = ..., num_records_out: _Optional[int] = ..., num_bytes_in: _Optional[int] = ..., num_bytes_out: _Optional[int] = ..., num_batches_in: _Optional[int] = ..., num_batches_out: _Optional[int] = ..., idle_time_ms: _Optional[int] = ..., busy_time_ms: _Optional[int] = ..., back_pressured_time_ms: _Optional[int] = ...) -> None: ...

class LogQuery(_message.Message):
    __slots__ = ("job_id", "min_level", "task", "text", "since_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    min_level: str
    task: str
    text: str
    since_ms: int
    def __init__(self, job_id: _Optional[str] = ..., min_level: _Optional[str] = ..., task: _Optional[str] = ..., text: _Optional[str] = ..., since_ms: _Optional[int] = ...) -> None: ...

class LogRecord(_message.Message):
    __slots__ = ("timestamp_ms", "level", "logger", "thread", "job_id", "job_name", "task", "message", "fields_json")
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JSON_FIELD_NUMBER: _ClassVar[int]
    timestamp_ms: int
    level: str
    logger: str
    thread: str
    job_id: str
    job_name: str
    task: str
    message: str
    fields_json: str
    def __init__(self, timestamp_ms: _Optional[int] = ..., level: _Optional[str] = ..., logger: _Optional[str] = ..., thread: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., task: _Optional[str] = ..., message: _Optional[str] = ..., fields_json: _Optional[str] = ...) -> None: ...

class LogRecordsRequest(_message.Message):
    __slots__ = ("query", "positions", "tail", "max_bytes", "skip")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUERY_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    query: LogQuery
    positions: _containers.ScalarMap[str, str]
    tail: int
    max_bytes: int
    skip: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, query: _Optional[_Union[LogQuery, _Mapping]] = ..., positions: _Optional[_Mapping[str, str]] = ..., tail: _Optional[int] = ..., max_bytes: _Optional[int] = ..., skip: _Optional[_Iterable[str]] = ...) -> None: ...

class LogRecords(_message.Message):
    __slots__ = ("records", "position", "is_at_end", "is_cut", "log", "source", "has_log", "host")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    IS_AT_END_FIELD_NUMBER: _ClassVar[int]
    IS_CUT_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    HAS_LOG_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[LogRecord]
    position: str
    is_at_end: bool
    is_cut: bool
    log: str
    source: str
    has_log: bool
    host: str
    def __init__(self, records: _Optional[_Iterable[_Union[LogRecord, _Mapping]]] = ..., position: _Optional[str] = ..., is_at_end: _Optional[bool] = ..., is_cut: _Optional[bool] = ..., log: _Optional[str] = ..., source: _Optional[str] = ..., has_log: _Optional[bool] = ..., host: _Optional[str] = ...) -> None: ...

class LogLevel(_message.Message):
    __slots__ = ("logger", "level", "job_id", "remaining_ms", "is_changed")
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    IS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    logger: str
    level: str
    job_id: str
    remaining_ms: int
    is_changed: bool
    def __init__(self, logger: _Optional[str] = ..., level: _Optional[str] = ..., job_id: _Optional[str] = ..., remaining_ms: _Optional[int] = ..., is_changed: _Optional[bool] = ...) -> None: ...

class LogLevelsRequest(_message.Message):
    __slots__ = ("job_id", "resource_id", "changes")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    changes: _containers.RepeatedCompositeFieldContainer[LogLevel]
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[LogLevel, _Mapping]]] = ...) -> None: ...

class LogLevels(_message.Message):
    __slots__ = ("levels", "source")
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[LogLevel]
    source: str
    def __init__(self, levels: _Optional[_Iterable[_Union[LogLevel, _Mapping]]] = ..., source: _Optional[str] = ...) -> None: ...

class JobLogRequest(_message.Message):
    __slots__ = ("job_id", "position", "max_bytes")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    position: int
    max_bytes: int
    def __init__(self, job_id: _Optional[str] = ..., position: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class JobLogChunk(_message.Message):
    __slots__ = ("resource_id", "is_known", "has_log", "data", "next_position", "end_position", "host")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    HAS_LOG_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_POSITION_FIELD_NUMBER: _ClassVar[int]
    END_POSITION_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    is_known: bool
    has_log: bool
    data: bytes
    next_position: int
    end_position: int
    host: str
    def __init__(self, resource_id: _Optional[str] = ..., is_known: _Optional[bool] = ..., has_log: _Optional[bool] = ..., data: _Optional[bytes] = ..., next_position: _Optional[int] = ..., end_position: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...
