"""Bodies of asynchronous operations.

Source: org.apache.flink.runtime.rest.handler.async, org.apache.flink.runtime.rest.messages.queue.QueueStatus.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class TriggerResponse(msgspec.Struct, kw_only=True):
    """The id by which the status of an operation is asked for."""

    request_id: str = msgspec.field(name="request-id")


class QueueStatus(msgspec.Struct, kw_only=True):
    id: Literal["IN_PROGRESS", "COMPLETED"]


class FailureCause(msgspec.Struct, kw_only=True):
    """An error, in the form in which Flink sends exceptions. Flink's own clients read class and text."""

    class_name: str = msgspec.field(name="class")
    stack_trace: str = msgspec.field(name="stack-trace")


class AsynchronousOperationInfo(msgspec.Struct, kw_only=True):
    """The end of an operation that has no other result."""

    failure_cause: FailureCause | UnsetType = msgspec.field(name="failure-cause", default=UNSET)


class AsynchronousOperationResult(msgspec.Struct, kw_only=True):
    """The status of an operation. What `operation` holds depends on the kind of the operation."""

    status: QueueStatus
    operation: Any = None
