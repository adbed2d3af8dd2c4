from flinkpy._proto import common_pb2 as _common_pb2
from flinkpy._proto import jobmaster_pb2 as _jobmaster_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobEvent(_message.Message):
    __slots__ = ("started", "decided", "finished", "reset", "snapshot", "final")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    started: JobMasterStartedEvent
    decided: VertexDecidedEvent
    finished: ExecutionFinishedEvent
    reset: ExecutionsResetEvent
    snapshot: CoordinatorSnapshotEvent
    final: ResultFinalEvent
    def __init__(self, started: _Optional[_Union[JobMasterStartedEvent, _Mapping]] = ..., decided: _Optional[_Union[VertexDecidedEvent, _Mapping]] = ..., finished: _Optional[_Union[ExecutionFinishedEvent, _Mapping]] = ..., reset: _Optional[_Union[ExecutionsResetEvent, _Mapping]] = ..., snapshot: _Optional[_Union[CoordinatorSnapshotEvent, _Mapping]] = ..., final: _Optional[_Union[ResultFinalEvent, _Mapping]] = ...) -> None: ...

class JobMasterStartedEvent(_message.Message):
    __slots__ = ("job_id", "execution_graph_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_GRAPH_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    execution_graph_id: str
    def __init__(self, job_id: _Optional[str] = ..., execution_graph_id: _Optional[str] = ...) -> None: ...

class VertexDecidedEvent(_message.Message):
    __slots__ = ("vertex_id", "parallelism", "reason", "edges")
    class Slice(_message.Message):
        __slots__ = ("first_partition", "last_partition", "first_subpartition", "last_subpartition")
        FIRST_PARTITION_FIELD_NUMBER: _ClassVar[int]
        LAST_PARTITION_FIELD_NUMBER: _ClassVar[int]
        FIRST_SUBPARTITION_FIELD_NUMBER: _ClassVar[int]
        LAST_SUBPARTITION_FIELD_NUMBER: _ClassVar[int]
        first_partition: int
        last_partition: int
        first_subpartition: int
        last_subpartition: int
        def __init__(self, first_partition: _Optional[int] = ..., last_partition: _Optional[int] = ..., first_subpartition: _Optional[int] = ..., last_subpartition: _Optional[int] = ...) -> None: ...
    class SubtaskSlices(_message.Message):
        __slots__ = ("slices",)
        SLICES_FIELD_NUMBER: _ClassVar[int]
        slices: _containers.RepeatedCompositeFieldContainer[VertexDecidedEvent.Slice]
        def __init__(self, slices: _Optional[_Iterable[_Union[VertexDecidedEvent.Slice, _Mapping]]] = ...) -> None: ...
    class Edge(_message.Message):
        __slots__ = ("subtasks",)
        SUBTASKS_FIELD_NUMBER: _ClassVar[int]
        subtasks: _containers.RepeatedCompositeFieldContainer[VertexDecidedEvent.SubtaskSlices]
        def __init__(self, subtasks: _Optional[_Iterable[_Union[VertexDecidedEvent.SubtaskSlices, _Mapping]]] = ...) -> None: ...
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    vertex_id: str
    parallelism: int
    reason: str
    edges: _containers.RepeatedCompositeFieldContainer[VertexDecidedEvent.Edge]
    def __init__(self, vertex_id: _Optional[str] = ..., parallelism: _Optional[int] = ..., reason: _Optional[str] = ..., edges: _Optional[_Iterable[_Union[VertexDecidedEvent.Edge, _Mapping]]] = ...) -> None: ...

class ExecutionFinishedEvent(_message.Message):
    __slots__ = ("execution_attempt_id", "allocation_id", "slot_index", "resource_id", "address", "data_address", "metrics", "accumulators_pickle", "result_partition_bytes", "state_timestamps")
    class AccumulatorsPickleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class StateTimestampsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    EXECUTION_ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATORS_PICKLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    execution_attempt_id: str
    allocation_id: str
    slot_index: int
    resource_id: str
    address: str
    data_address: str
    metrics: _common_pb2.IOMetrics
    accumulators_pickle: _containers.ScalarMap[str, bytes]
    result_partition_bytes: _containers.RepeatedCompositeFieldContainer[_jobmaster_pb2.ResultPartitionBytes]
    state_timestamps: _containers.ScalarMap[int, int]
    def __init__(self, execution_attempt_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., slot_index: _Optional[int] = ..., resource_id: _Optional[str] = ..., address: _Optional[str] = ..., data_address: _Optional[str] = ..., metrics: _Optional[_Union[_common_pb2.IOMetrics, _Mapping]] = ..., accumulators_pickle: _Optional[_Mapping[str, bytes]] = ..., result_partition_bytes: _Optional[_Iterable[_Union[_jobmaster_pb2.ResultPartitionBytes, _Mapping]]] = ..., state_timestamps: _Optional[_Mapping[int, int]] = ...) -> None: ...

class ExecutionsResetEvent(_message.Message):
    __slots__ = ("execution_attempt_ids",)
    EXECUTION_ATTEMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    execution_attempt_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, execution_attempt_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CoordinatorSnapshotEvent(_message.Message):
    __slots__ = ("vertex_id", "states")
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    VERTEX_ID_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    vertex_id: str
    states: _containers.ScalarMap[str, bytes]
    def __init__(self, vertex_id: _Optional[str] = ..., states: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class ResultFinalEvent(_message.Message):
    __slots__ = ("data_set_id", "result_partition_ids")
    DATA_SET_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    data_set_id: str
    result_partition_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, data_set_id: _Optional[str] = ..., result_partition_ids: _Optional[_Iterable[str]] = ...) -> None: ...
