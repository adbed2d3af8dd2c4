"""Errors across RPC: typed in, typed out."""

from __future__ import annotations

import traceback
from typing import Any

from flinkpy._proto import common_pb2
from flinkpy.common.errors import FlinkError, InternalError, RemoteError, error_class

#: gRPC trailing metadata key; the `-bin` suffix lets it carry bytes.
ERROR_METADATA_KEY = "flinkpy-error-bin"

#: gRPC limits a response's metadata (8 KiB by default); a traceback is cut to fit, keeping its two ends.
MAX_TRACEBACK_CHARS = 4000
MAX_MESSAGE_CHARS = 1500
MAX_CAUSES = 3


def error_to_proto(error: BaseException, *, depth: int = 0) -> common_pb2.ErrorInfo:
    """The wire form of any exception. One that is not a FlinkError becomes InternalError with its traceback."""
    if not isinstance(error, FlinkError):
        text = "".join(traceback.format_exception(error))
        wrapped = InternalError(f"{type(error).__name__}: {error}", remote_traceback=text)
        return error_to_proto(wrapped, depth=depth)
    info = common_pb2.ErrorInfo(
        type=error.details.get("type", type(error).__name__)
        if isinstance(error, RemoteError)
        else type(error).__name__,
        message=error.message,
        domain=error.domain.name,
        retry=error.retry.name,
        traceback=error.remote_traceback,
        details=error.details,
    )
    cause = error.__cause__
    # `raise error from error`: what passes a typed error on unchanged may say so; it is no cause.
    if isinstance(cause, FlinkError) and cause is not error and depth < MAX_CAUSES:
        info.cause.CopyFrom(error_to_proto(cause, depth=depth + 1))
    return info


def error_from_proto(info: common_pb2.ErrorInfo) -> FlinkError:
    """The exception that `error_to_proto` was given: the same class, message, details, traceback and causes."""
    cls = error_class(info.type)
    details = dict(info.details)
    if cls is None:
        cls = RemoteError
        details["type"] = info.type
    error = cls(info.message, details=details, remote_traceback=info.traceback)
    if info.HasField("cause"):
        error.__cause__ = error_from_proto(info.cause)
    return error


def bounded_error_metadata(error: BaseException) -> tuple[tuple[str, Any], ...]:
    """Trailing metadata for `error`, cut to what fits into gRPC metadata."""
    info = error_to_proto(error)
    info.ClearField("cause")
    info.message = _cut(info.message, MAX_MESSAGE_CHARS)
    info.traceback = _cut(info.traceback, MAX_TRACEBACK_CHARS)
    return ((ERROR_METADATA_KEY, info.SerializeToString()),)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n  ... {len(text) - limit} characters left out ...\n{text[-half:]}"
