from flinkpy._proto import common_pb2 as _common_pb2
from flinkpy._proto import job_pb2 as _job_pb2
from flinkpy._proto import dispatcher_pb2 as _dispatcher_pb2
from flinkpy._proto import checkpoint_pb2 as _checkpoint_pb2
from flinkpy._proto import metrics_pb2 as _metrics_pb2
from flinkpy._proto import thread_samples_pb2 as _thread_samples_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterTaskManagerRequest(_message.Message):
    __slots__ = ("job_id", "resource_id", "address", "data_address", "held_result_partition_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HELD_RESULT_PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    address: str
    data_address: str
    held_result_partition_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., address: _Optional[str] = ..., data_address: _Optional[str] = ..., held_result_partition_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RegisterTaskManagerResponse(_message.Message):
    __slots__ = ("resource_id", "heartbeat_interval_ms")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    heartbeat_interval_ms: int
    def __init__(self, resource_id: _Optional[str] = ..., heartbeat_interval_ms: _Optional[int] = ...) -> None: ...

class NotEnoughResourcesRequest(_message.Message):
    __slots__ = ("job_id", "resources", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resources: _common_pb2.ResourceProfile
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., resources: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class SlotOffer(_message.Message):
    __slots__ = ("allocation_id", "slot_index", "resource_profile", "resources")
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_PROFILE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    allocation_id: str
    slot_index: int
    resource_profile: str
    resources: _common_pb2.ResourceProfile
    def __init__(self, allocation_id: _Optional[str] = ..., slot_index: _Optional[int] = ..., resource_profile: _Optional[str] = ..., resources: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ...) -> None: ...

class OfferSlotsRequest(_message.Message):
    __slots__ = ("job_id", "resource_id", "offers")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    offers: _containers.RepeatedCompositeFieldContainer[SlotOffer]
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., offers: _Optional[_Iterable[_Union[SlotOffer, _Mapping]]] = ...) -> None: ...

class OfferSlotsResponse(_message.Message):
    __slots__ = ("accepted",)
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: _containers.RepeatedCompositeFieldContainer[SlotOffer]
    def __init__(self, accepted: _Optional[_Iterable[_Union[SlotOffer, _Mapping]]] = ...) -> None: ...

class FailSlotRequest(_message.Message):
    __slots__ = ("job_id", "resource_id", "allocation_id", "cause")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    allocation_id: str
    cause: _common_pb2.ErrorInfo
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., cause: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ...) -> None: ...

class TaskExecutionStateUpdate(_message.Message):
    __slots__ = ("execution_attempt_id", "state", "error", "metrics", "accumulators_pickle", "result_partition_bytes", "initialization")
    class AccumulatorsPickleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class InitializationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATORS_PICKLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_BYTES_FIELD_NUMBER: _ClassVar[int]
    INITIALIZATION_FIELD_NUMBER: _ClassVar[int]
    execution_attempt_id: str
    state: _common_pb2.ExecutionState
    error: _common_pb2.ErrorInfo
    metrics: _common_pb2.IOMetrics
    accumulators_pickle: _containers.ScalarMap[str, bytes]
    result_partition_bytes: _containers.RepeatedCompositeFieldContainer[ResultPartitionBytes]
    initialization: _containers.ScalarMap[str, int]
    def __init__(self, execution_attempt_id: _Optional[str] = ..., state: _Optional[_Union[_common_pb2.ExecutionState, str]] = ..., error: _Optional[_Union[_common_pb2.ErrorInfo, _Mapping]] = ..., metrics: _Optional[_Union[_common_pb2.IOMetrics, _Mapping]] = ..., accumulators_pickle: _Optional[_Mapping[str, bytes]] = ..., result_partition_bytes: _Optional[_Iterable[_Union[ResultPartitionBytes, _Mapping]]] = ..., initialization: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ResultPartitionBytes(_message.Message):
    __slots__ = ("result_partition_id", "subpartition_bytes")
    RESULT_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    SUBPARTITION_BYTES_FIELD_NUMBER: _ClassVar[int]
    result_partition_id: str
    subpartition_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, result_partition_id: _Optional[str] = ..., subpartition_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class UpdateTaskExecutionStatesRequest(_message.Message):
    __slots__ = ("job_id", "updates")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    updates: _containers.RepeatedCompositeFieldContainer[TaskExecutionStateUpdate]
    def __init__(self, job_id: _Optional[str] = ..., updates: _Optional[_Iterable[_Union[TaskExecutionStateUpdate, _Mapping]]] = ...) -> None: ...

class OperatorEvent(_message.Message):
    __slots__ = ("operator_id", "execution_attempt_id", "subtask_index", "payload_pickle", "sequence_number", "is_kept")
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBTASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_PICKLE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    IS_KEPT_FIELD_NUMBER: _ClassVar[int]
    operator_id: str
    execution_attempt_id: str
    subtask_index: int
    payload_pickle: bytes
    sequence_number: int
    is_kept: bool
    def __init__(self, operator_id: _Optional[str] = ..., execution_attempt_id: _Optional[str] = ..., subtask_index: _Optional[int] = ..., payload_pickle: _Optional[bytes] = ..., sequence_number: _Optional[int] = ..., is_kept: _Optional[bool] = ...) -> None: ...

class OperatorEventsToCoordinator(_message.Message):
    __slots__ = ("job_id", "events")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    events: _containers.RepeatedCompositeFieldContainer[OperatorEvent]
    def __init__(self, job_id: _Optional[str] = ..., events: _Optional[_Iterable[_Union[OperatorEvent, _Mapping]]] = ...) -> None: ...

class StoreResultRequest(_message.Message):
    __slots__ = ("job_id", "result_partition_id", "offset", "data", "is_last", "crc32")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    result_partition_id: str
    offset: int
    data: bytes
    is_last: bool
    crc32: int
    def __init__(self, job_id: _Optional[str] = ..., result_partition_id: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., is_last: _Optional[bool] = ..., crc32: _Optional[int] = ...) -> None: ...

class FetchResultRequest(_message.Message):
    __slots__ = ("job_id", "result_partition_id", "offset")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    result_partition_id: str
    offset: int
    def __init__(self, job_id: _Optional[str] = ..., result_partition_id: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchResultResponse(_message.Message):
    __slots__ = ("data", "is_last", "crc32")
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    is_last: bool
    crc32: int
    def __init__(self, data: _Optional[bytes] = ..., is_last: _Optional[bool] = ..., crc32: _Optional[int] = ...) -> None: ...

class RequestPartitionStateRequest(_message.Message):
    __slots__ = ("job_id", "data_set_id", "result_partition_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_SET_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    data_set_id: str
    result_partition_id: str
    def __init__(self, job_id: _Optional[str] = ..., data_set_id: _Optional[str] = ..., result_partition_id: _Optional[str] = ...) -> None: ...

class RequestPartitionStateResponse(_message.Message):
    __slots__ = ("producer_state",)
    PRODUCER_STATE_FIELD_NUMBER: _ClassVar[int]
    producer_state: _common_pb2.ExecutionState
    def __init__(self, producer_state: _Optional[_Union[_common_pb2.ExecutionState, str]] = ...) -> None: ...

class TaskManagerToJobMasterHeartbeat(_message.Message):
    __slots__ = ("job_id", "resource_id", "deployed_execution_attempts", "metrics", "held_result_partition_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    DEPLOYED_EXECUTION_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    HELD_RESULT_PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    deployed_execution_attempts: _containers.RepeatedScalarFieldContainer[str]
    metrics: _containers.RepeatedCompositeFieldContainer[TaskExecutionStateUpdate]
    held_result_partition_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., deployed_execution_attempts: _Optional[_Iterable[str]] = ..., metrics: _Optional[_Iterable[_Union[TaskExecutionStateUpdate, _Mapping]]] = ..., held_result_partition_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class JobMasterHeartbeatResponse(_message.Message):
    __slots__ = ("registered", "allocation_ids")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_IDS_FIELD_NUMBER: _ClassVar[int]
    registered: bool
    allocation_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, registered: _Optional[bool] = ..., allocation_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class TaskMetricsReport(_message.Message):
    __slots__ = ("job_id", "resource_id", "tasks")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    tasks: _containers.RepeatedCompositeFieldContainer[TaskExecutionStateUpdate]
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[TaskExecutionStateUpdate, _Mapping]]] = ...) -> None: ...

class DisconnectTaskManagerRequest(_message.Message):
    __slots__ = ("job_id", "resource_id", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    resource_id: str
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
