"""Converts resource profiles to messages and back."""

from __future__ import annotations

from typing import Protocol

from flinkpy._proto import common_pb2
from flinkpy.common.resource_profile import ResourceProfile


class _HasField(Protocol):
    def HasField(self, field_name: str) -> bool: ...


def resource_profile_to_proto(profile: ResourceProfile) -> common_pb2.ResourceProfile | None:
    """Returns the message; None, an absent field, for UNKNOWN."""
    if profile.is_unknown:
        return None
    if profile.is_any:
        return common_pb2.ResourceProfile(is_any=True)
    return common_pb2.ResourceProfile(
        cpu_cores=profile.cpu_cores,
        task_heap_bytes=profile.task_heap_bytes,
        task_off_heap_bytes=profile.task_off_heap_bytes,
        managed_bytes=profile.managed_bytes,
        network_bytes=profile.network_bytes,
        external=dict(profile.external),
    )


def resource_profile_from_proto(
    message: _HasField, field_name: str, absent: ResourceProfile = ResourceProfile.UNKNOWN
) -> ResourceProfile:
    """Returns the profile in a field of a message; `absent` if the field is not set."""
    if not message.HasField(field_name):
        return absent
    profile: common_pb2.ResourceProfile = getattr(message, field_name)
    if profile.is_any:
        return ResourceProfile.ANY
    return ResourceProfile(
        profile.cpu_cores,
        profile.task_heap_bytes,
        profile.task_off_heap_bytes,
        profile.managed_bytes,
        profile.network_bytes,
        tuple(profile.external.items()),
    )
