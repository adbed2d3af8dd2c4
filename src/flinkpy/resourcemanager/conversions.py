"""Messages of the ResourceManager's gateway to what its machines speak, and back."""

from __future__ import annotations

from flinkpy._proto import resourcemanager_pb2 as pb
from flinkpy.common.ids import AllocationID, JobID, JobMasterId, ResourceID
from flinkpy.resourcemanager.resource_tracker import JobRequirements, ResourceRequirement
from flinkpy.resourcemanager.task_executor_tracker import (
    SlotStatus,
    TaskExecutorDescription,
    TaskExecutorInfo,
)


def slot_report_from_proto(report: pb.SlotReport) -> list[SlotStatus]:
    return [
        SlotStatus(slot.slot_index, AllocationID(slot.allocation_id), JobID(slot.job_id))
        if slot.allocation_id
        else SlotStatus(slot.slot_index)
        for slot in report.slots
    ]


def description_from_proto(request: pb.RegisterTaskExecutorRequest) -> TaskExecutorDescription:
    return TaskExecutorDescription(
        resource_id=ResourceID(request.resource_id),
        address=request.address,
        data_address=request.data_address,
        pid=request.pid,
        host=request.host,
        num_slots=request.num_slots,
        cpu_cores=request.hardware.cpu_cores,
        memory_bytes=request.hardware.memory_bytes,
        profile=request.profile if request.HasField("profile") else None,
    )


def requirements_from_proto(request: pb.ResourceRequirements) -> JobRequirements:
    return JobRequirements(
        job_id=JobID(request.job_id),
        job_master_id=JobMasterId(request.job_master_id),
        job_master_address=request.job_master_address,
        requirements=tuple(
            ResourceRequirement(requirement.num_slots, requirement.resource_profile)
            for requirement in request.requirements
            if requirement.num_slots > 0
        ),
        sequence_number=request.sequence_number,
        blocked=frozenset(ResourceID(resource_id) for resource_id in request.blocked_resource_ids),
        num_at_once=request.num_slots_at_once,
    )


def task_manager_info_to_proto(info: TaskExecutorInfo, last_heartbeat_ms: int) -> pb.TaskManagerInfo:
    described = info.description
    return pb.TaskManagerInfo(
        resource_id=str(info.resource_id),
        address=described.address,
        data_address=described.data_address,
        pid=described.pid,
        host=described.host,
        hardware=pb.HardwareDescription(cpu_cores=described.cpu_cores, memory_bytes=described.memory_bytes),
        slots=[
            pb.SlotStatus(
                slot_index=slot.index,
                allocation_id=str(slot.allocation_id or ""),
                job_id=str(slot.job_id or ""),
            )
            for slot in info.slots
        ],
        last_heartbeat_ms=last_heartbeat_ms,
    )
