from flinkpy._proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DistributionPattern(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISTRIBUTION_PATTERN_UNSPECIFIED: _ClassVar[DistributionPattern]
    ALL_TO_ALL: _ClassVar[DistributionPattern]
    POINTWISE: _ClassVar[DistributionPattern]

class ResultPartitionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_PARTITION_TYPE_UNSPECIFIED: _ClassVar[ResultPartitionType]
    PIPELINED: _ClassVar[ResultPartitionType]
    PIPELINED_BOUNDED: _ClassVar[ResultPartitionType]
    BLOCKING: _ClassVar[ResultPartitionType]
DISTRIBUTION_PATTERN_UNSPECIFIED: DistributionPattern
ALL_TO_ALL: DistributionPattern
POINTWISE: DistributionPattern
RESULT_PARTITION_TYPE_UNSPECIFIED: ResultPartitionType
PIPELINED: ResultPartitionType
PIPELINED_BOUNDED: ResultPartitionType
BLOCKING: ResultPartitionType

class OperatorDescriptor(_message.Message):
    __slots__ = ("operator_id", "name", "uid", "description", "factory_pickle", "outputs", "coordinator_pickle")
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FACTORY_PICKLE_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_PICKLE_FIELD_NUMBER: _ClassVar[int]
    operator_id: str
    name: str
    uid: str
    description: str
    factory_pickle: bytes
    outputs: _containers.RepeatedCompositeFieldContainer[OutputDescriptor]
    coordinator_pickle: bytes
    def __init__(self, operator_id: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., description: _Optional[str] = ..., factory_pickle: _Optional[bytes] = ..., outputs: _Optional[_Iterable[_Union[OutputDescriptor, _Mapping]]] = ..., coordinator_pickle: _Optional[bytes] = ...) -> None: ...

class OutputDescriptor(_message.Message):
    __slots__ = ("chained_operator", "result", "input_index", "side_output_tag")
    CHAINED_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    SIDE_OUTPUT_TAG_FIELD_NUMBER: _ClassVar[int]
    chained_operator: int
    result: int
    input_index: int
    side_output_tag: str
    def __init__(self, chained_operator: _Optional[int] = ..., result: _Optional[int] = ..., input_index: _Optional[int] = ..., side_output_tag: _Optional[str] = ...) -> None: ...

class IntermediateDataSet(_message.Message):
    __slots__ = ("id", "type", "partitioner_pickle", "partitioner_name", "type_pickle", "distribution", "buffer_timeout_ms", "consumer_max_parallelism")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONER_PICKLE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONER_NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_PICKLE_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    BUFFER_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_MAX_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: ResultPartitionType
    partitioner_pickle: bytes
    partitioner_name: str
    type_pickle: bytes
    distribution: DistributionPattern
    buffer_timeout_ms: int
    consumer_max_parallelism: int
    def __init__(self, id: _Optional[str] = ..., type: _Optional[_Union[ResultPartitionType, str]] = ..., partitioner_pickle: _Optional[bytes] = ..., partitioner_name: _Optional[str] = ..., type_pickle: _Optional[bytes] = ..., distribution: _Optional[_Union[DistributionPattern, str]] = ..., buffer_timeout_ms: _Optional[int] = ..., consumer_max_parallelism: _Optional[int] = ...) -> None: ...

class JobEdge(_message.Message):
    __slots__ = ("source_data_set_id", "input_index", "partitioner_name")
    SOURCE_DATA_SET_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    PARTITIONER_NAME_FIELD_NUMBER: _ClassVar[int]
    source_data_set_id: str
    input_index: int
    partitioner_name: str
    def __init__(self, source_data_set_id: _Optional[str] = ..., input_index: _Optional[int] = ..., partitioner_name: _Optional[str] = ...) -> None: ...

class JobVertex(_message.Message):
    __slots__ = ("id", "name", "description", "parallelism", "max_parallelism", "slot_sharing_group", "chain", "inputs", "results", "task_kind", "is_committer", "supports_concurrent_attempts", "slot_resources", "parallelism_bound", "is_non_parallel")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SLOT_SHARING_GROUP_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TASK_KIND_FIELD_NUMBER: _ClassVar[int]
    IS_COMMITTER_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_CONCURRENT_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SLOT_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_BOUND_FIELD_NUMBER: _ClassVar[int]
    IS_NON_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    description: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    chain: _containers.RepeatedCompositeFieldContainer[OperatorDescriptor]
    inputs: _containers.RepeatedCompositeFieldContainer[JobEdge]
    results: _containers.RepeatedCompositeFieldContainer[IntermediateDataSet]
    task_kind: str
    is_committer: bool
    supports_concurrent_attempts: bool
    slot_resources: _common_pb2.ResourceProfile
    parallelism_bound: int
    is_non_parallel: bool
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., parallelism: _Optional[int] = ..., max_parallelism: _Optional[int] = ..., slot_sharing_group: _Optional[str] = ..., chain: _Optional[_Iterable[_Union[OperatorDescriptor, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[JobEdge, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[IntermediateDataSet, _Mapping]]] = ..., task_kind: _Optional[str] = ..., is_committer: _Optional[bool] = ..., supports_concurrent_attempts: _Optional[bool] = ..., slot_resources: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ..., parallelism_bound: _Optional[int] = ..., is_non_parallel: _Optional[bool] = ...) -> None: ...

class VertexParallelismBounds(_message.Message):
    __slots__ = ("vertex_id", "lower_bound", "upper_bound")
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    vertex_id: str
    lower_bound: int
    upper_bound: int
    def __init__(self, vertex_id: _Optional[str] = ..., lower_bound: _Optional[int] = ..., upper_bound: _Optional[int] = ...) -> None: ...

class JobResourceRequirements(_message.Message):
    __slots__ = ("vertices",)
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    vertices: _containers.RepeatedCompositeFieldContainer[VertexParallelismBounds]
    def __init__(self, vertices: _Optional[_Iterable[_Union[VertexParallelismBounds, _Mapping]]] = ...) -> None: ...

class ResourceRequirementsUpdate(_message.Message):
    __slots__ = ("job_id", "requirements")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    requirements: JobResourceRequirements
    def __init__(self, job_id: _Optional[str] = ..., requirements: _Optional[_Union[JobResourceRequirements, _Mapping]] = ...) -> None: ...

class UserArtifact(_message.Message):
    __slots__ = ("name", "blob_key", "kind", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    BLOB_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    blob_key: str
    kind: str
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., blob_key: _Optional[str] = ..., kind: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobGraph(_message.Message):
    __slots__ = ("job_id", "name", "vertices", "configuration", "artifacts", "client_version", "python_version", "created_ms", "python_path", "working_directory", "is_cancel_requested", "initial_client_heartbeat_timeout_ms", "traceparent", "resource_requirements")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    PYTHON_PATH_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    IS_CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    INITIAL_CLIENT_HEARTBEAT_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    vertices: _containers.RepeatedCompositeFieldContainer[JobVertex]
    configuration: _common_pb2.Configuration
    artifacts: _containers.RepeatedCompositeFieldContainer[UserArtifact]
    client_version: str
    python_version: str
    created_ms: int
    python_path: _containers.RepeatedScalarFieldContainer[str]
    working_directory: str
    is_cancel_requested: bool
    initial_client_heartbeat_timeout_ms: int
    traceparent: str
    resource_requirements: JobResourceRequirements
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., vertices: _Optional[_Iterable[_Union[JobVertex, _Mapping]]] = ..., configuration: _Optional[_Union[_common_pb2.Configuration, _Mapping]] = ..., artifacts: _Optional[_Iterable[_Union[UserArtifact, _Mapping]]] = ..., client_version: _Optional[str] = ..., python_version: _Optional[str] = ..., created_ms: _Optional[int] = ..., python_path: _Optional[_Iterable[str]] = ..., working_directory: _Optional[str] = ..., is_cancel_requested: _Optional[bool] = ..., initial_client_heartbeat_timeout_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., resource_requirements: _Optional[_Union[JobResourceRequirements, _Mapping]] = ...) -> None: ...

class VertexDetails(_message.Message):
    __slots__ = ("id", "name", "parallelism", "max_parallelism", "tasks_per_state", "metrics", "subtasks", "parallelism_reason", "spark_description", "state", "start_time_ms", "end_time_ms", "slot_sharing_group", "operators", "accumulators", "parallelism_lower_bound", "parallelism_upper_bound", "is_non_parallel", "splits")
    class TasksPerStateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_STATE_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_REASON_FIELD_NUMBER: _ClassVar[int]
    SPARK_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    SLOT_SHARING_GROUP_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATORS_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    IS_NON_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    parallelism: int
    max_parallelism: int
    tasks_per_state: _containers.ScalarMap[str, int]
    metrics: _common_pb2.IOMetrics
    subtasks: _containers.RepeatedCompositeFieldContainer[SubtaskDetails]
    parallelism_reason: str
    spark_description: str
    state: _common_pb2.ExecutionState
    start_time_ms: int
    end_time_ms: int
    slot_sharing_group: str
    operators: _containers.RepeatedCompositeFieldContainer[OperatorDetails]
    accumulators: _containers.RepeatedCompositeFieldContainer[AccumulatorResult]
    parallelism_lower_bound: int
    parallelism_upper_bound: int
    is_non_parallel: bool
    splits: SplitProgress
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., parallelism: _Optional[int] = ..., max_parallelism: _Optional[int] = ..., tasks_per_state: _Optional[_Mapping[str, int]] = ..., metrics: _Optional[_Union[_common_pb2.IOMetrics, _Mapping]] = ..., subtasks: _Optional[_Iterable[_Union[SubtaskDetails, _Mapping]]] = ..., parallelism_reason: _Optional[str] = ..., spark_description: _Optional[str] = ..., state: _Optional[_Union[_common_pb2.ExecutionState, str]] = ..., start_time_ms: _Optional[int] = ..., end_time_ms: _Optional[int] = ..., slot_sharing_group: _Optional[str] = ..., operators: _Optional[_Iterable[_Union[OperatorDetails, _Mapping]]] = ..., accumulators: _Optional[_Iterable[_Union[AccumulatorResult, _Mapping]]] = ..., parallelism_lower_bound: _Optional[int] = ..., parallelism_upper_bound: _Optional[int] = ..., is_non_parallel: _Optional[bool] = ..., splits: _Optional[_Union[SplitProgress, _Mapping]] = ...) -> None: ...

class SplitProgress(_message.Message):
    __slots__ = ("num_splits", "num_left")
    NUM_SPLITS_FIELD_NUMBER: _ClassVar[int]
    NUM_LEFT_FIELD_NUMBER: _ClassVar[int]
    num_splits: int
    num_left: int
    def __init__(self, num_splits: _Optional[int] = ..., num_left: _Optional[int] = ...) -> None: ...

class OperatorDetails(_message.Message):
    __slots__ = ("id", "name", "uid", "description", "inputs")
    class Input(_message.Message):
        __slots__ = ("operator_id", "ship_strategy", "exchange", "vertex_id")
        OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
        SHIP_STRATEGY_FIELD_NUMBER: _ClassVar[int]
        EXCHANGE_FIELD_NUMBER: _ClassVar[int]
        VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
        operator_id: str
        ship_strategy: str
        exchange: ResultPartitionType
        vertex_id: str
        def __init__(self, operator_id: _Optional[str] = ..., ship_strategy: _Optional[str] = ..., exchange: _Optional[_Union[ResultPartitionType, str]] = ..., vertex_id: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    uid: str
    description: str
    inputs: _containers.RepeatedCompositeFieldContainer[OperatorDetails.Input]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., description: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[OperatorDetails.Input, _Mapping]]] = ...) -> None: ...

class SubtaskDetails(_message.Message):
    __slots__ = ("subtask_index", "attempt_number", "state", "resource_id", "execution_attempt_id", "metrics", "state_timestamps", "allocation_id", "endpoint", "prior_attempts", "concurrent_attempts", "accumulators")
    class StateTimestampsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    STATE_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    PRIOR_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENT_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATORS_FIELD_NUMBER: _ClassVar[int]
    subtask_index: int
    attempt_number: int
    state: _common_pb2.ExecutionState
    resource_id: str
    execution_attempt_id: str
    metrics: _common_pb2.IOMetrics
    state_timestamps: _containers.ScalarMap[str, int]
    allocation_id: str
    endpoint: str
    prior_attempts: _containers.RepeatedCompositeFieldContainer[SubtaskDetails]
    concurrent_attempts: _containers.RepeatedCompositeFieldContainer[SubtaskDetails]
    accumulators: _containers.RepeatedCompositeFieldContainer[AccumulatorResult]
    def __init__(self, subtask_index: _Optional[int] = ..., attempt_number: _Optional[int] = ..., state: _Optional[_Union[_common_pb2.ExecutionState, str]] = ..., resource_id: _Optional[str] = ..., execution_attempt_id: _Optional[str] = ..., metrics: _Optional[_Union[_common_pb2.IOMetrics, _Mapping]] = ..., state_timestamps: _Optional[_Mapping[str, int]] = ..., allocation_id: _Optional[str] = ..., endpoint: _Optional[str] = ..., prior_attempts: _Optional[_Iterable[_Union[SubtaskDetails, _Mapping]]] = ..., concurrent_attempts: _Optional[_Iterable[_Union[SubtaskDetails, _Mapping]]] = ..., accumulators: _Optional[_Iterable[_Union[AccumulatorResult, _Mapping]]] = ...) -> None: ...

class ExceptionHistoryEntry(_message.Message):
    __slots__ = ("timestamp_ms", "error", "task_name", "resource_id", "endpoint", "concurrent", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TASK_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    timestamp_ms: int
    error: _common_pb2.ErrorInfo
    task_name: str
    resource_id: str
    endpoint: str
    concurrent: _containers.RepeatedCompositeFieldContainer[ExceptionHistoryEntry]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, timestamp_ms: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ..., task_name: _Optional[str] = ..., resource_id: _Optional[str] = ..., endpoint: _Optional[str] = ..., concurrent: _Optional[_Iterable[_Union[ExceptionHistoryEntry, _Mapping]]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobDetailsRequest(_message.Message):
    __slots__ = ("job_id", "without_subtasks", "vertex_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    VERTEX_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    without_subtasks: bool
    vertex_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., without_subtasks: _Optional[bool] = ..., vertex_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class JobDetails(_message.Message):
    __slots__ = ("job_id", "name", "status", "start_time_ms", "end_time_ms", "status_timestamps", "vertices", "exception_history", "num_restarts", "configuration", "num_slots_required", "num_slots_held", "is_batch", "is_exception_history_truncated")
    class StatusTimestampsEntry(_message.Message):
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
    STATUS_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    VERTICES_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_HISTORY_FIELD_NUMBER: _ClassVar[int]
    NUM_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_HELD_FIELD_NUMBER: _ClassVar[int]
    IS_BATCH_FIELD_NUMBER: _ClassVar[int]
    IS_EXCEPTION_HISTORY_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    status: _common_pb2.JobStatus
    start_time_ms: int
    end_time_ms: int
    status_timestamps: _containers.ScalarMap[str, int]
    vertices: _containers.RepeatedCompositeFieldContainer[VertexDetails]
    exception_history: _containers.RepeatedCompositeFieldContainer[ExceptionHistoryEntry]
    num_restarts: int
    configuration: _common_pb2.Configuration
    num_slots_required: int
    num_slots_held: int
    is_batch: bool
    is_exception_history_truncated: bool
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ..., start_time_ms: _Optional[int] = ..., end_time_ms: _Optional[int] = ..., status_timestamps: _Optional[_Mapping[str, int]] = ..., vertices: _Optional[_Iterable[_Union[VertexDetails, _Mapping]]] = ..., exception_history: _Optional[_Iterable[_Union[ExceptionHistoryEntry, _Mapping]]] = ..., num_restarts: _Optional[int] = ..., configuration: _Optional[_Union[_common_pb2.Configuration, _Mapping]] = ..., num_slots_required: _Optional[int] = ..., num_slots_held: _Optional[int] = ..., is_batch: _Optional[bool] = ..., is_exception_history_truncated: _Optional[bool] = ...) -> None: ...

class JobResult(_message.Message):
    __slots__ = ("job_id", "name", "status", "net_runtime_ms", "error", "accumulators")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NET_RUNTIME_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATORS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    status: _common_pb2.JobStatus
    net_runtime_ms: int
    error: _common_pb2.ErrorInfo
    accumulators: _containers.RepeatedCompositeFieldContainer[AccumulatorResult]
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ..., net_runtime_ms: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ..., accumulators: _Optional[_Iterable[_Union[AccumulatorResult, _Mapping]]] = ...) -> None: ...

class AccumulatorResult(_message.Message):
    __slots__ = ("name", "type", "value", "value_pickle")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_PICKLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    value: str
    value_pickle: bytes
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., value: _Optional[str] = ..., value_pickle: _Optional[bytes] = ...) -> None: ...

class DiagnosisRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class JobMasterThreadsRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class JobMasterThreads(_message.Message):
    __slots__ = ("threads",)
    class Thread(_message.Message):
        __slots__ = ("name", "stack")
        NAME_FIELD_NUMBER: _ClassVar[int]
        STACK_FIELD_NUMBER: _ClassVar[int]
        name: str
        stack: str
        def __init__(self, name: _Optional[str] = ..., stack: _Optional[str] = ...) -> None: ...
    THREADS_FIELD_NUMBER: _ClassVar[int]
    threads: _containers.RepeatedCompositeFieldContainer[JobMasterThreads.Thread]
    def __init__(self, threads: _Optional[_Iterable[_Union[JobMasterThreads.Thread, _Mapping]]] = ...) -> None: ...

class JobDiagnosis(_message.Message):
    __slots__ = ("job_id", "timestamp_ms", "status", "findings")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    timestamp_ms: int
    status: _common_pb2.JobStatus
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, job_id: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., status: _Optional[_Union[_common_pb2.JobStatus, str]] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("kind", "severity", "sentence", "advice", "vertex_id", "subtask_index", "operator_id", "split_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    SPLIT_ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    severity: str
    sentence: str
    advice: str
    vertex_id: str
    subtask_index: int
    operator_id: str
    split_id: str
    def __init__(self, kind: _Optional[str] = ..., severity: _Optional[str] = ..., sentence: _Optional[str] = ..., advice: _Optional[str] = ..., vertex_id: _Optional[str] = ..., subtask_index: _Optional[int] = ..., operator_id: _Optional[str] = ..., split_id: _Optional[str] = ...) -> None: ...

class AccumulatorsRequest(_message.Message):
    __slots__ = ("job_id", "vertex_id", "by_subtask")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    BY_SUBTASK_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    vertex_id: str
    by_subtask: bool
    def __init__(self, job_id: _Optional[str] = ..., vertex_id: _Optional[str] = ..., by_subtask: _Optional[bool] = ...) -> None: ...

class SubtaskAccumulators(_message.Message):
    __slots__ = ("subtask_index", "accumulators")
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATORS_FIELD_NUMBER: _ClassVar[int]
    subtask_index: int
    accumulators: _containers.RepeatedCompositeFieldContainer[AccumulatorResult]
    def __init__(self, subtask_index: _Optional[int] = ..., accumulators: _Optional[_Iterable[_Union[AccumulatorResult, _Mapping]]] = ...) -> None: ...

class JobAccumulators(_message.Message):
    __slots__ = ("accumulators", "subtasks")
    ACCUMULATORS_FIELD_NUMBER: _ClassVar[int]
    SUBTASKS_FIELD_NUMBER: _ClassVar[int]
    accumulators: _containers.RepeatedCompositeFieldContainer[AccumulatorResult]
    subtasks: _containers.RepeatedCompositeFieldContainer[SubtaskAccumulators]
    def __init__(self, accumulators: _Optional[_Iterable[_Union[AccumulatorResult, _Mapping]]] = ..., subtasks: _Optional[_Iterable[_Union[SubtaskAccumulators, _Mapping]]] = ...) -> None: ...
