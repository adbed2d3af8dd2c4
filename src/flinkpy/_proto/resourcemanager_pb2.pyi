from flinkpy._proto import common_pb2 as _common_pb2
from flinkpy._proto import metrics_pb2 as _metrics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterJobMasterRequest(_message.Message):
    __slots__ = ("job_id", "job_master_id", "resource_id", "address")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    resource_id: str
    address: str
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class RegisterJobMasterResponse(_message.Message):
    __slots__ = ("resource_manager_id", "resource_id", "heartbeat_interval_ms")
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    resource_manager_id: str
    resource_id: str
    heartbeat_interval_ms: int
    def __init__(self, resource_manager_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., heartbeat_interval_ms: _Optional[int] = ...) -> None: ...

class ResourceRequirement(_message.Message):
    __slots__ = ("num_slots", "resource_profile", "resources")
    NUM_SLOTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_PROFILE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    num_slots: int
    resource_profile: str
    resources: _common_pb2.ResourceProfile
    def __init__(self, num_slots: _Optional[int] = ..., resource_profile: _Optional[str] = ..., resources: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ...) -> None: ...

class ResourceRequirements(_message.Message):
    __slots__ = ("job_id", "job_master_id", "job_master_address", "requirements", "sequence_number", "blocked_resource_ids", "num_slots_at_once", "adopted_allocation_ids")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_RESOURCE_IDS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_ALLOCATION_IDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_master_id: str
    job_master_address: str
    requirements: _containers.RepeatedCompositeFieldContainer[ResourceRequirement]
    sequence_number: int
    blocked_resource_ids: _containers.RepeatedScalarFieldContainer[str]
    num_slots_at_once: int
    adopted_allocation_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., job_master_id: _Optional[str] = ..., job_master_address: _Optional[str] = ..., requirements: _Optional[_Iterable[_Union[ResourceRequirement, _Mapping]]] = ..., sequence_number: _Optional[int] = ..., blocked_resource_ids: _Optional[_Iterable[str]] = ..., num_slots_at_once: _Optional[int] = ..., adopted_allocation_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SlotStatus(_message.Message):
    __slots__ = ("slot_index", "allocation_id", "job_id", "num_tasks", "resources", "environment_profile")
    SLOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_TASKS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_PROFILE_FIELD_NUMBER: _ClassVar[int]
    slot_index: int
    allocation_id: str
    job_id: str
    num_tasks: int
    resources: _common_pb2.ResourceProfile
    environment_profile: str
    def __init__(self, slot_index: _Optional[int] = ..., allocation_id: _Optional[str] = ..., job_id: _Optional[str] = ..., num_tasks: _Optional[int] = ..., resources: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ..., environment_profile: _Optional[str] = ...) -> None: ...

class SlotReport(_message.Message):
    __slots__ = ("slots", "jobs_with_partitions")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    JOBS_WITH_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotStatus]
    jobs_with_partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotStatus, _Mapping]]] = ..., jobs_with_partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class HardwareDescription(_message.Message):
    __slots__ = ("cpu_cores", "memory_bytes")
    CPU_CORES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpu_cores: int
    memory_bytes: int
    def __init__(self, cpu_cores: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class RegisterTaskExecutorRequest(_message.Message):
    __slots__ = ("resource_id", "address", "data_address", "pid", "host", "hardware", "num_slots", "profile", "total_resource", "default_slot_resource")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SLOT_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    address: str
    data_address: str
    pid: int
    host: str
    hardware: HardwareDescription
    num_slots: int
    profile: str
    total_resource: _common_pb2.ResourceProfile
    default_slot_resource: _common_pb2.ResourceProfile
    def __init__(self, resource_id: _Optional[str] = ..., address: _Optional[str] = ..., data_address: _Optional[str] = ..., pid: _Optional[int] = ..., host: _Optional[str] = ..., hardware: _Optional[_Union[HardwareDescription, _Mapping]] = ..., num_slots: _Optional[int] = ..., profile: _Optional[str] = ..., total_resource: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ..., default_slot_resource: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ...) -> None: ...

class RegisterTaskExecutorResponse(_message.Message):
    __slots__ = ("resource_manager_id", "instance_id", "resource_id", "heartbeat_interval_ms")
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    resource_manager_id: str
    instance_id: str
    resource_id: str
    heartbeat_interval_ms: int
    def __init__(self, resource_manager_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., heartbeat_interval_ms: _Optional[int] = ...) -> None: ...

class SendSlotReportRequest(_message.Message):
    __slots__ = ("resource_id", "instance_id", "report")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    instance_id: str
    report: SlotReport
    def __init__(self, resource_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., report: _Optional[_Union[SlotReport, _Mapping]] = ...) -> None: ...

class NotifySlotAvailableRequest(_message.Message):
    __slots__ = ("instance_id", "resource_id", "slot_index", "allocation_id")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    resource_id: str
    slot_index: int
    allocation_id: str
    def __init__(self, instance_id: _Optional[str] = ..., resource_id: _Optional[str] = ..., slot_index: _Optional[int] = ..., allocation_id: _Optional[str] = ...) -> None: ...

class TaskExecutorHeartbeat(_message.Message):
    __slots__ = ("resource_id", "instance_id", "slot_report")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_REPORT_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    instance_id: str
    slot_report: SlotReport
    def __init__(self, resource_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., slot_report: _Optional[_Union[SlotReport, _Mapping]] = ...) -> None: ...

class JobMasterHeartbeat(_message.Message):
    __slots__ = ("resource_id", "job_id")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    job_id: str
    def __init__(self, resource_id: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...

class ResourceManagerHeartbeatResponse(_message.Message):
    __slots__ = ("resource_manager_id", "registered")
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    resource_manager_id: str
    registered: bool
    def __init__(self, resource_manager_id: _Optional[str] = ..., registered: _Optional[bool] = ...) -> None: ...

class DisconnectRequest(_message.Message):
    __slots__ = ("resource_id", "job_id", "reason")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    job_id: str
    reason: str
    def __init__(self, resource_id: _Optional[str] = ..., job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class TaskManagerInfoRequest(_message.Message):
    __slots__ = ("resource_id",)
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    def __init__(self, resource_id: _Optional[str] = ...) -> None: ...

class TaskManagerInfo(_message.Message):
    __slots__ = ("resource_id", "address", "data_address", "pid", "host", "hardware", "slots", "last_heartbeat_ms", "num_slots", "total_resource", "free_resource", "default_slot_resource")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    FREE_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SLOT_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    address: str
    data_address: str
    pid: int
    host: str
    hardware: HardwareDescription
    slots: _containers.RepeatedCompositeFieldContainer[SlotStatus]
    last_heartbeat_ms: int
    num_slots: int
    total_resource: _common_pb2.ResourceProfile
    free_resource: _common_pb2.ResourceProfile
    default_slot_resource: _common_pb2.ResourceProfile
    def __init__(self, resource_id: _Optional[str] = ..., address: _Optional[str] = ..., data_address: _Optional[str] = ..., pid: _Optional[int] = ..., host: _Optional[str] = ..., hardware: _Optional[_Union[HardwareDescription, _Mapping]] = ..., slots: _Optional[_Iterable[_Union[SlotStatus, _Mapping]]] = ..., last_heartbeat_ms: _Optional[int] = ..., num_slots: _Optional[int] = ..., total_resource: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ..., free_resource: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ..., default_slot_resource: _Optional[_Union[_common_pb2.ResourceProfile, _Mapping]] = ...) -> None: ...

class TaskManagerInfoResponse(_message.Message):
    __slots__ = ("task_managers",)
    TASK_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    task_managers: _containers.RepeatedCompositeFieldContainer[TaskManagerInfo]
    def __init__(self, task_managers: _Optional[_Iterable[_Union[TaskManagerInfo, _Mapping]]] = ...) -> None: ...

class ResourceOverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResourceOverview(_message.Message):
    __slots__ = ("num_task_managers", "num_slots_total", "num_slots_free", "num_pending_task_managers", "resource_manager_id")
    NUM_TASK_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    NUM_SLOTS_FREE_FIELD_NUMBER: _ClassVar[int]
    NUM_PENDING_TASK_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_ID_FIELD_NUMBER: _ClassVar[int]
    num_task_managers: int
    num_slots_total: int
    num_slots_free: int
    num_pending_task_managers: int
    resource_manager_id: str
    def __init__(self, num_task_managers: _Optional[int] = ..., num_slots_total: _Optional[int] = ..., num_slots_free: _Optional[int] = ..., num_pending_task_managers: _Optional[int] = ..., resource_manager_id: _Optional[str] = ...) -> None: ...
