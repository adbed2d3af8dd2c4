"""Carries the errors of functions from Spark's Python workers to the driver.

Spark passes on only the text of an exception. So a worker raises a WorkerFailure, whose text ends with a marker line
that has the error as compressed JSON in base64. `failure_in` finds the line in the text of Spark's exception.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib

from flinkpy.common.error_text import bounded_text, describe, format_user_traceback
from flinkpy.common.errors import FlinkError, FunctionError, RemoteError, error_class

_MARKER = "flinkpy-error:"
_PATTERN = re.compile(re.escape(_MARKER) + r"([A-Za-z0-9+/=]+):end")
#: The maximum length of each text in it. Spark, gRPC and logs have limits of their own.
_MAX_CHARACTERS = 16_384


class WorkerFailure(Exception):
    """Is raised by a worker. Its text begins with the message of the error."""


def worker_failure(error: BaseException, task_name: str) -> WorkerFailure:
    """Returns the exception that carries `error` to the driver. An error other than a FlinkError is a FunctionError."""
    if not isinstance(error, FlinkError):
        error = FunctionError(
            f"{task_name}: {describe(error)}",
            details={"task": task_name},
            remote_traceback=format_user_traceback(error),
        )
    described = {
        "type": type(error).__name__,
        "message": bounded_text(error.message, _MAX_CHARACTERS),
        "details": {key: bounded_text(value, _MAX_CHARACTERS) for key, value in error.details.items()},
        "traceback": error.remote_traceback[-_MAX_CHARACTERS:],
    }
    packed = base64.b64encode(zlib.compress(json.dumps(described).encode())).decode()
    return WorkerFailure(
        f"{bounded_text(error.message, _MAX_CHARACTERS)}\n{error.remote_traceback}\n{_MARKER}{packed}:end"
    )


def failure_in(text: str) -> FlinkError | None:
    """Returns the error in the text of a Spark exception; None if a worker of ours did not raise it."""
    found = _PATTERN.search(text)
    if found is None:
        return None
    try:
        described = json.loads(zlib.decompress(base64.b64decode(found[1])))
    except (ValueError, zlib.error, binascii.Error):
        return None
    kind = error_class(described["type"])
    details = described["details"]
    if kind is None:
        kind, details = RemoteError, {**details, "type": described["type"]}
    return kind(described["message"], details=details, remote_traceback=described["traceback"])
