from flinkpy._proto import common_pb2 as _common_pb2
from flinkpy._proto import job_pb2 as _job_pb2
from flinkpy._proto import checkpoint_pb2 as _checkpoint_pb2
from flinkpy._proto import metrics_pb2 as _metrics_pb2
from flinkpy._proto import thread_samples_pb2 as _thread_samples_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BlobChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class BlobKey(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class JobIdMessage(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class JobClientHeartbeat(_message.Message):
    __slots__ = ("job_id", "timeout_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    timeout_ms: int
    def __init__(self, job_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("job_graph", "job_graph_blob_key")
    JOB_GRAPH_FIELD_NUMBER: _ClassVar[int]
    JOB_GRAPH_BLOB_KEY_FIELD_NUMBER: _ClassVar[int]
    job_graph: _job_pb2.JobGraph
    job_graph_blob_key: str
    def __init__(self, job_graph: _Optional[_Union[_job_pb2.JobGraph, _Mapping]] = ..., job_graph_blob_key: _Optional[str] = ...) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobOverview(_message.Message):
    __slots__ = ("job_id", "name", "status", "start_time_ms", "end_time_ms", "tasks_per_state", "is_batch")
    class TasksPerStateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_STATE_FIELD_NUMBER: _ClassVar[int]
    IS_BATCH_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    status: _common_pb2.JobStatus
    start_time_ms: int
    end_time_ms: int
    tasks_per_state: _containers.ScalarMap[str, int]
    is_batch: bool
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ..., start_time_ms: _Optional[int] = ..., end_time_ms: _Optional[int] = ..., tasks_per_state: _Optional[_Mapping[str, int]] = ..., is_batch: _Optional[bool] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobOverview]
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobOverview, _Mapping]]] = ...) -> None: ...

class JobStatusResponse(_message.Message):
    __slots__ = ("job_id", "status")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    status: _common_pb2.JobStatus
    def __init__(self, job_id: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ...) -> None: ...

class RequestJobResultRequest(_message.Message):
    __slots__ = ("job_id", "timeout_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    timeout_ms: int
    def __init__(self, job_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class RequestJobResultResponse(_message.Message):
    __slots__ = ("finished", "result")
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    finished: bool
    result: _job_pb2.JobResult
    def __init__(self, finished: _Optional[bool] = ..., result: _Optional[_Union[_job_pb2.JobResult, _Mapping]] = ...) -> None: ...

class ClusterOverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterOverview(_message.Message):
    __slots__ = ("num_task_managers", "num_slots_total", "num_slots_available", "num_jobs_running", "num_jobs_finished", "num_jobs_cancelled", "num_jobs_failed", "version", "dispatcher_id", "resource_manager_address", "is_insecure", "rest_url")
    NUM_TASK_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    NUM_JOBS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NUM_JOBS_FINISHED_FIELD_NUMBER: _ClassVar[int]
    NUM_JOBS_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    NUM_JOBS_FAILED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DISPATCHER_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IS_INSECURE_FIELD_NUMBER: _ClassVar[int]
    REST_URL_FIELD_NUMBER: _ClassVar[int]
    num_task_managers: int
    num_slots_total: int
    num_slots_available: int
    num_jobs_running: int
    num_jobs_finished: int
    num_jobs_cancelled: int
    num_jobs_failed: int
    version: str
    dispatcher_id: str
    resource_manager_address: str
    is_insecure: bool
    rest_url: str
    def __init__(self, num_task_managers: _Optional[int] = ..., num_slots_total: _Optional[int] = ..., num_slots_available: _Optional[int] = ..., num_jobs_running: _Optional[int] = ..., num_jobs_finished: _Optional[int] = ..., num_jobs_cancelled: _Optional[int] = ..., num_jobs_failed: _Optional[int] = ..., version: _Optional[str] = ..., dispatcher_id: _Optional[str] = ..., resource_manager_address: _Optional[str] = ..., is_insecure: _Optional[bool] = ..., rest_url: _Optional[str] = ...) -> None: ...

class ShutDownClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CoordinationRequest(_message.Message):
    __slots__ = ("job_id", "operator_id", "payload")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    operator_id: str
    payload: bytes
    def __init__(self, job_id: _Optional[str] = ..., operator_id: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class JobLogRecords(_message.Message):
    __slots__ = ("logs", "is_over", "unreachable")
    LOGS_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedCompositeFieldContainer[_common_pb2.LogRecords]
    is_over: bool
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, logs: _Optional[_Iterable[_Union[_common_pb2.LogRecords, _Mapping]]] = ..., is_over: _Optional[bool] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class JobLogLevels(_message.Message):
    __slots__ = ("processes", "unreachable")
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    processes: _containers.RepeatedCompositeFieldContainer[_common_pb2.LogLevels]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, processes: _Optional[_Iterable[_Union[_common_pb2.LogLevels, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class JobLogsRequest(_message.Message):
    __slots__ = ("job_id", "positions")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    positions: _containers.ScalarMap[str, int]
    def __init__(self, job_id: _Optional[str] = ..., positions: _Optional[_Mapping[str, int]] = ...) -> None: ...

class JobLogs(_message.Message):
    __slots__ = ("chunks", "is_over", "unreachable")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[_common_pb2.JobLogChunk]
    is_over: bool
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, chunks: _Optional[_Iterable[_Union[_common_pb2.JobLogChunk, _Mapping]]] = ..., is_over: _Optional[bool] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class CoordinationResponse(_message.Message):
    __slots__ = ("payload",)
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    def __init__(self, payload: _Optional[bytes] = ...) -> None: ...

class JobMasterHello(_message.Message):
    __slots__ = ("resource_id", "pid", "host", "job_id", "job_master_id", "address", "status")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    pid: int
    host: str
    job_id: str
    job_master_id: str
    address: str
    status: _common_pb2.JobStatus
    def __init__(self, resource_id: _Optional[str] = ..., pid: _Optional[int] = ..., host: _Optional[str] = ..., job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., address: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ...) -> None: ...

class JobMasterCommand(_message.Message):
    __slots__ = ("start", "stop", "adopted")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    start: StartJob
    stop: StopJobMaster
    adopted: JobMasterAdopted
    def __init__(self, start: _Optional[_Union[StartJob, _Mapping]] = ..., stop: _Optional[_Union[StopJobMaster, _Mapping]] = ..., adopted: _Optional[_Union[JobMasterAdopted, _Mapping]] = ...) -> None: ...

class JobMasterAdopted(_message.Message):
    __slots__ = ("dispatcher_id",)
    DISPATCHER_ID_FIELD_NUMBER: _ClassVar[int]
    dispatcher_id: str
    def __init__(self, dispatcher_id: _Optional[str] = ...) -> None: ...

class StartJob(_message.Message):
    __slots__ = ("job_graph", "job_master_id", "resource_manager_address", "configuration", "dispatcher_id", "submitted_ms", "recovery_directory", "is_recovery")
    JOB_GRAPH_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    DISPATCHER_ID_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    IS_RECOVERY_FIELD_NUMBER: _ClassVar[int]
    job_graph: _job_pb2.JobGraph
    job_master_id: str
    resource_manager_address: str
    configuration: _common_pb2.Configuration
    dispatcher_id: str
    submitted_ms: int
    recovery_directory: str
    is_recovery: bool
    def __init__(self, job_graph: _Optional[_Union[_job_pb2.JobGraph, _Mapping]] = ..., job_master_id: _Optional[str] = ..., resource_manager_address: _Optional[str] = ..., configuration: _Optional[_Union[_common_pb2.Configuration, _Mapping]] = ..., dispatcher_id: _Optional[str] = ..., submitted_ms: _Optional[int] = ..., recovery_directory: _Optional[str] = ..., is_recovery: _Optional[bool] = ...) -> None: ...

class StopJobMaster(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class JobMasterStarted(_message.Message):
    __slots__ = ("job_id", "job_master_id", "address")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    address: str
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class JobStatusUpdate(_message.Message):
    __slots__ = ("job_id", "job_master_id", "status", "timestamp_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    status: _common_pb2.JobStatus
    timestamp_ms: int
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class JobTerminated(_message.Message):
    __slots__ = ("job_id", "job_master_id", "result", "details", "checkpoint_statistics")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_STATISTICS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    result: _job_pb2.JobResult
    details: _job_pb2.JobDetails
    checkpoint_statistics: _checkpoint_pb2.CheckpointStatisticsResponse
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., result: _Optional[_Union[_job_pb2.JobResult, _Mapping]] = ..., details: _Optional[_Union[_job_pb2.JobDetails, _Mapping]] = ..., checkpoint_statistics: _Optional[_Union[_checkpoint_pb2.CheckpointStatisticsResponse, _Mapping]] = ...) -> None: ...
