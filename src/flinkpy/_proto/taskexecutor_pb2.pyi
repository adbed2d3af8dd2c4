from flinkpy._proto import common_pb2 as _common_pb2
from flinkpy._proto import checkpoint_pb2 as _checkpoint_pb2
from flinkpy._proto import job_pb2 as _job_pb2
from flinkpy._proto import jobmaster_pb2 as _jobmaster_pb2
from flinkpy._proto import metrics_pb2 as _metrics_pb2
from flinkpy._proto import resourcemanager_pb2 as _resourcemanager_pb2
from flinkpy._proto import thread_samples_pb2 as _thread_samples_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestSlotRequest(_message.Message):
    __slots__ = ("slot_index", "job_id", "allocation_id", "resource_profile", "job_master_address", "job_master_id", "resource_manager_id", "resources")
    SLOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_PROFILE_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    slot_index: int
    job_id: str
    allocation_id: str
    resource_profile: str
    job_master_address: str
    job_master_id: str
    resource_manager_id: str
    resources: _common_pb2.ResourceProfile
    def __init__(self, slot_index: _Optional[int] = ..., job_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., resource_profile: _Optional[str] = ..., job_master_address: _Optional[str] = ..., job_master_id: _Optional[str] = ..., resource_manager_id: _Optional[str] = ..., resources: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ...) -> None: ...

class ConnectJobMasterRequest(_message.Message):
    __slots__ = ("job_id", "job_master_address", "job_master_id", "configuration")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_address: str
    job_master_id: str
    configuration: _common_pb2.Configuration
    def __init__(self, job_id: _Optional[str] = ..., job_master_address: _Optional[str] = ..., job_master_id: _Optional[str] = ..., configuration: _Optional[_Union[_common_pb2.Configuration, _Mapping]] = ...) -> None: ...

class ConnectJobMasterResponse(_message.Message):
    __slots__ = ("held_result_partition_ids",)
    HELD_RESULT_PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    held_result_partition_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, held_result_partition_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class TaskReportRequest(_message.Message):
    __slots__ = ("job_id", "job_master_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ...) -> None: ...

class KeptOperatorEvent(_message.Message):
    __slots__ = ("operator_id", "payload_pickle", "after_checkpoint_id")
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_PICKLE_FIELD_NUMBER: _ClassVar[int]
    AFTER_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    operator_id: str
    payload_pickle: bytes
    after_checkpoint_id: int
    def __init__(self, operator_id: _Optional[str] = ..., payload_pickle: _Optional[bytes] = ..., after_checkpoint_id: _Optional[int] = ...) -> None: ...

class ReportedTask(_message.Message):
    __slots__ = ("execution_attempt_id", "allocation_id", "slot_index", "state", "consumed_partition_ids", "events", "events_since", "obstacle")
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_SINCE_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    execution_attempt_id: str
    allocation_id: str
    slot_index: int
    state: _common_pb2.ExecutionState
    consumed_partition_ids: _containers.RepeatedScalarFieldContainer[str]
    events: _containers.RepeatedCompositeFieldContainer[KeptOperatorEvent]
    events_since: int
    obstacle: str
    def __init__(self, execution_attempt_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., slot_index: _Optional[int] = ..., state: _Optional[_Union[_common_pb2.ExecutionState, str]] = ..., consumed_partition_ids: _Optional[_Iterable[str]] = ..., events: _Optional[_Iterable[_Union[KeptOperatorEvent, _Mapping]]] = ..., events_since: _Optional[int] = ..., obstacle: _Optional[str] = ...) -> None: ...

class TaskReport(_message.Message):
    __slots__ = ("resource_id", "data_address", "tasks")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    data_address: str
    tasks: _containers.RepeatedCompositeFieldContainer[ReportedTask]
    def __init__(self, resource_id: _Optional[str] = ..., data_address: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[ReportedTask, _Mapping]]] = ...) -> None: ...

class AdoptTasksRequest(_message.Message):
    __slots__ = ("job_id", "job_master_id", "job_master_address", "execution_attempt_ids", "completed_checkpoint_id", "aborted_checkpoint_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    ABORTED_CHECKPOINT_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    job_master_address: str
    execution_attempt_ids: _containers.RepeatedScalarFieldContainer[str]
    completed_checkpoint_id: int
    aborted_checkpoint_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., job_master_address: _Optional[str] = ..., execution_attempt_ids: _Optional[_Iterable[str]] = ..., completed_checkpoint_id: _Optional[int] = ..., aborted_checkpoint_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("resource_manager_id",)
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    resource_manager_id: str
    def __init__(self, resource_manager_id: _Optional[str] = ...) -> None: ...

class FreeSlotRequest(_message.Message):
    __slots__ = ("allocation_id", "job_id", "cause")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    job_id: str
    cause: _common_pb2.ErrorInfo
    def __init__(self, allocation_id: _Optional[str] = ..., job_id: _Optional[str] = ..., cause: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ...) -> None: ...

class ResultPartitionDeployment(_message.Message):
    __slots__ = ("data_set_id", "result_partition_id", "partition_index", "num_subpartitions", "result_index", "is_kept_by_job_master", "is_final")
    DATA_SET_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_SUBPARTITIONS_FIELD_NUMBER: _ClassVar[int]
    RESULT_INDEX_FIELD_NUMBER: _ClassVar[int]
    IS_KEPT_BY_JOB_MASTER_FIELD_NUMBER: _ClassVar[int]
    IS_FINAL_FIELD_NUMBER: _ClassVar[int]
    data_set_id: str
    result_partition_id: str
    partition_index: int
    num_subpartitions: int
    result_index: int
    is_kept_by_job_master: bool
    is_final: bool
    def __init__(self, data_set_id: _Optional[str] = ..., result_partition_id: _Optional[str] = ..., partition_index: _Optional[int] = ..., num_subpartitions: _Optional[int] = ..., result_index: _Optional[int] = ..., is_kept_by_job_master: _Optional[bool] = ..., is_final: _Optional[bool] = ...) -> None: ...

class ShuffleDescriptor(_message.Message):
    __slots__ = ("result_partition_id", "resource_id", "data_address", "partition_index")
    RESULT_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    result_partition_id: str
    resource_id: str
    data_address: str
    partition_index: int
    def __init__(self, result_partition_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., data_address: _Optional[str] = ..., partition_index: _Optional[int] = ...) -> None: ...

class InputGateDeployment(_message.Message):
    __slots__ = ("data_set_id", "input_index", "edge_index", "subpartition_index", "partitions", "num_subpartitions", "is_blocking", "is_kept_by_job_master")
    DATA_SET_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    EDGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    SUBPARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_SUBPARTITIONS_FIELD_NUMBER: _ClassVar[int]
    IS_BLOCKING_FIELD_NUMBER: _ClassVar[int]
    IS_KEPT_BY_JOB_MASTER_FIELD_NUMBER: _ClassVar[int]
    data_set_id: str
    input_index: int
    edge_index: int
    subpartition_index: int
    partitions: _containers.RepeatedCompositeFieldContainer[ShuffleDescriptor]
    num_subpartitions: int
    is_blocking: bool
    is_kept_by_job_master: bool
    def __init__(self, data_set_id: _Optional[str] = ..., input_index: _Optional[int] = ..., edge_index: _Optional[int] = ..., subpartition_index: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ShuffleDescriptor, _Mapping]]] = ..., num_subpartitions: _Optional[int] = ..., is_blocking: _Optional[bool] = ..., is_kept_by_job_master: _Optional[bool] = ...) -> None: ...

class TaskDeployment(_message.Message):
    __slots__ = ("execution_attempt_id", "vertex_id", "subtask_index", "attempt_number", "allocation_id", "produced_partitions", "input_gates", "restore")
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    INPUT_GATES_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    execution_attempt_id: str
    vertex_id: str
    subtask_index: int
    attempt_number: int
    allocation_id: str
    produced_partitions: _containers.RepeatedCompositeFieldContainer[ResultPartitionDeployment]
    input_gates: _containers.RepeatedCompositeFieldContainer[InputGateDeployment]
    restore: _checkpoint_pb2.TaskRestore
    def __init__(self, execution_attempt_id: _Optional[str] = ..., vertex_id: _Optional[str] = ..., subtask_index: _Optional[int] = ..., attempt_number: _Optional[int] = ..., allocation_id: _Optional[str] = ..., produced_partitions: _Optional[_Iterable[_Union[ResultPartitionDeployment, _Mapping]]] = ..., input_gates: _Optional[_Iterable[_Union[InputGateDeployment, _Mapping]]] = ..., restore: _Optional[_Union[_checkpoint_pb2.TaskRestore, _Mapping]] = ...) -> None: ...

class JobInformation(_message.Message):
    __slots__ = ("job_id", "name", "configuration", "artifacts", "python_path", "working_directory", "blob_server_address", "traceparent")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    PYTHON_PATH_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    BLOB_SERVER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    configuration: _common_pb2.Configuration
    artifacts: _containers.RepeatedCompositeFieldContainer[_job_pb2.UserArtifact]
    python_path: _containers.RepeatedScalarFieldContainer[str]
    working_directory: str
    blob_server_address: str
    traceparent: str
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., configuration: _Optional[_Union[_common_pb2.Configuration, _Mapping]] = ..., artifacts: _Optional[_Iterable[_Union[_job_pb2.UserArtifact, _Mapping]]] = ..., python_path: _Optional[_Iterable[str]] = ..., working_directory: _Optional[str] = ..., blob_server_address: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class SubmitTasksRequest(_message.Message):
    __slots__ = ("job", "vertices", "tasks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    job: JobInformation
    vertices: _containers.RepeatedCompositeFieldContainer[_job_pb2.JobVertex]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskDeployment]
    def __init__(self, job: _Optional[_Union[JobInformation, _Mapping]] = ..., vertices: _Optional[_Iterable[_Union[_job_pb2.JobVertex, _Mapping]]] = ..., tasks: _Optional[_Iterable[_Union[TaskDeployment, _Mapping]]] = ...) -> None: ...

class SubmitTasksResponse(_message.Message):
    __slots__ = ("rejections",)
    class Rejection(_message.Message):
        __slots__ = ("execution_attempt_id", "error")
        EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        execution_attempt_id: str
        error: _common_pb2.ErrorInfo
        def __init__(self, execution_attempt_id: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ...) -> None: ...
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    rejections: _containers.RepeatedCompositeFieldContainer[SubmitTasksResponse.Rejection]
    def __init__(self, rejections: _Optional[_Iterable[_Union[SubmitTasksResponse.Rejection, _Mapping]]] = ...) -> None: ...

class CancelTasksRequest(_message.Message):
    __slots__ = ("job_id", "execution_attempt_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    execution_attempt_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., execution_attempt_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdatePartitionsRequest(_message.Message):
    __slots__ = ("job_id", "updates")
    class PartitionUpdate(_message.Message):
        __slots__ = ("execution_attempt_id", "input_index", "partition")
        EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
        INPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        execution_attempt_id: str
        input_index: int
        partition: ShuffleDescriptor
        def __init__(self, execution_attempt_id: _Optional[str] = ..., input_index: _Optional[int] = ..., partition: _Optional[_Union[ShuffleDescriptor, _Mapping]] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    updates: _containers.RepeatedCompositeFieldContainer[UpdatePartitionsRequest.PartitionUpdate]
    def __init__(self, job_id: _Optional[str] = ..., updates: _Optional[_Iterable[_Union[UpdatePartitionsRequest.PartitionUpdate, _Mapping]]] = ...) -> None: ...

class ReleasePartitionsRequest(_message.Message):
    __slots__ = ("job_id", "result_partition_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    result_partition_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., result_partition_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class OperatorEventsToTasks(_message.Message):
    __slots__ = ("job_id", "events")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    events: _containers.RepeatedCompositeFieldContainer[_jobmaster_pb2.OperatorEvent]
    def __init__(self, job_id: _Optional[str] = ..., events: _Optional[_Iterable[_Union[_jobmaster_pb2.OperatorEvent, _Mapping]]] = ...) -> None: ...

class ResourceManagerHeartbeat(_message.Message):
    __slots__ = ("resource_manager_id",)
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    resource_manager_id: str
    def __init__(self, resource_manager_id: _Optional[str] = ...) -> None: ...

class AllocatedSlotReport(_message.Message):
    __slots__ = ("job_id", "allocation_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    allocation_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., allocation_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ProcessMetricsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ThreadDumpRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ThreadDump(_message.Message):
    __slots__ = ("threads",)
    class Thread(_message.Message):
        __slots__ = ("name", "stack")
        NAME_FIELD_NUMBER: _ClassVar[int]
        STACK_FIELD_NUMBER: _ClassVar[int]
        name: str
        stack: str
        def __init__(self, name: _Optional[str] = ..., stack: _Optional[str] = ...) -> None: ...
    THREADS_FIELD_NUMBER: _ClassVar[int]
    threads: _containers.RepeatedCompositeFieldContainer[ThreadDump.Thread]
    def __init__(self, threads: _Optional[_Iterable[_Union[ThreadDump.Thread, _Mapping]]] = ...) -> None: ...

class LogListRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogList(_message.Message):
    __slots__ = ("files", "log_name", "stdout_name")
    class LogFile(_message.Message):
        __slots__ = ("name", "size_bytes", "modified_ms")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
        MODIFIED_MS_FIELD_NUMBER: _ClassVar[int]
        name: str
        size_bytes: int
        modified_ms: int
        def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., modified_ms: _Optional[int] = ...) -> None: ...
    FILES_FIELD_NUMBER: _ClassVar[int]
    LOG_NAME_FIELD_NUMBER: _ClassVar[int]
    STDOUT_NAME_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[LogList.LogFile]
    log_name: str
    stdout_name: str
    def __init__(self, files: _Optional[_Iterable[_Union[LogList.LogFile, _Mapping]]] = ..., log_name: _Optional[str] = ..., stdout_name: _Optional[str] = ...) -> None: ...

class FileRequest(_message.Message):
    __slots__ = ("name", "offset", "length")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    length: int
    def __init__(self, name: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class FileChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...
