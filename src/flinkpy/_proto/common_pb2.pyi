from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
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
