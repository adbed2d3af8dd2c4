"""Conversion of typed errors to and from their wire form.

The wire form of any exception is valid and has a bounded size, so that a report of a failure is never refused because
of the content of a user's exception.
"""

from __future__ import annotations

from typing import Any

from flinkpy._proto import common_pb2
from flinkpy.common.error_text import (
    MAX_DETAIL_CHARS,
    MAX_DETAILS,
    MAX_MESSAGE_CHARS,
    MAX_TRACEBACK_CHARS,
    bounded_text,
    describe,
    format_traceback,
    safe_repr,
    text_of,
)
from flinkpy.common.errors import FlinkError, InternalError, RemoteError, error_class

#: gRPC trailing metadata key; the `-bin` suffix lets it carry bytes.
ERROR_METADATA_KEY = "flinkpy-error-bin"

#: The maximum number of causes that are sent with an error.
MAX_CAUSES = 3
#: Characters of a type name.
MAX_TYPE_CHARS = 256

#: The maximum characters of message, traceback and each detail of a reduced error. It is also sent as gRPC metadata,
#: and must stay below the 64 KiB that our channels accept there, with base64 and four bytes per character.
_SMALL_MESSAGE_CHARS = 1500
_SMALL_TRACEBACK_CHARS = 4000
_SMALL_DETAIL_CHARS = 250
_SMALL_DETAILS = 8


def error_to_proto(error: BaseException, *, depth: int = 0) -> common_pb2.ErrorInfo:
    """Returns the wire form of any exception. An exception that is no FlinkError becomes an InternalError."""
    if not isinstance(error, FlinkError):
        return error_to_proto(InternalError(describe(error), remote_traceback=format_traceback(error)), depth=depth)
    info = common_pb2.ErrorInfo(
        type=bounded_text(_type_name(error), MAX_TYPE_CHARS),
        message=bounded_text(text_of(error), MAX_MESSAGE_CHARS),
        domain=error.domain.name,
        retry=error.retry.name,
        traceback=bounded_text(_text(error.remote_traceback), MAX_TRACEBACK_CHARS),
        details=_bounded(error.details, MAX_DETAILS, MAX_DETAIL_CHARS),
    )
    cause = error.__cause__
    # `raise error from error` makes an error its own cause.
    if isinstance(cause, FlinkError) and cause is not error and depth < MAX_CAUSES:
        info.cause.CopyFrom(error_to_proto(cause, depth=depth + 1))
    return info


def _type_name(error: FlinkError) -> str:
    """Returns the type name on the wire. A user's subclass is sent under the name of its nearest flinkpy class."""
    if isinstance(error, RemoteError):
        return error.details.get("type", "RemoteError")
    kind = type(error)
    if error_class(kind.__name__) in (None, kind):
        return kind.__name__
    return next(base.__name__ for base in kind.__mro__ if error_class(base.__name__) is base)


def error_from_proto(info: common_pb2.ErrorInfo) -> FlinkError:
    """Returns the exception with the class, message, details, traceback and causes that `error_to_proto` was given."""
    cls = error_class(info.type)
    details = dict(info.details)
    if cls is None:
        cls = RemoteError
        details["type"] = info.type
    error = cls(info.message, details=details, remote_traceback=info.traceback)
    if info.HasField("cause"):
        error.__cause__ = error_from_proto(info.cause)
    return error


def reduced_error(info: common_pb2.ErrorInfo) -> common_pb2.ErrorInfo:
    """Returns `info` reduced to a few KiB: its type, shortened message, traceback and details, and no causes."""
    reduced = common_pb2.ErrorInfo()
    reduced.CopyFrom(info)
    reduced.ClearField("cause")
    reduced.message = bounded_text(info.message, _SMALL_MESSAGE_CHARS)
    reduced.traceback = bounded_text(info.traceback, _SMALL_TRACEBACK_CHARS)
    reduced.ClearField("details")
    reduced.details.update(_bounded(dict(info.details), _SMALL_DETAILS, _SMALL_DETAIL_CHARS))
    return reduced


def bounded_error_metadata(error: BaseException) -> tuple[tuple[str, Any], ...]:
    """Returns the trailing metadata that carries `error`, reduced to fit into gRPC metadata."""
    return ((ERROR_METADATA_KEY, reduced_error(error_to_proto(error)).SerializeToString()),)


def _bounded(details: Any, max_details: int, max_chars: int) -> dict[str, str]:
    if not isinstance(details, dict):
        return {}
    return {
        bounded_text(_text(name), max_chars): bounded_text(_text(value), max_chars)
        for name, value in list(details.items())[:max_details]
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else safe_repr(value, MAX_DETAIL_CHARS)
