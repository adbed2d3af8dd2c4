"""Errors of the REST API: which status an error gets, and its body, which is that of Flink: `{"errors": [TEXT]}`.

A stack trace is never sent: it names files of this host, and the caller cannot act on it. The log has it.
"""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus

from flinkpy.common.error_text import MAX_MESSAGE_CHARS, bounded_text
from flinkpy.common.errors import (
    AuthenticationError,
    AuthorizationError,
    ErrorDomain,
    FlinkError,
    JobNotFoundError,
    JobTerminatedWithoutCancellationError,
    NotLeaderError,
    RpcTimeoutError,
    RpcUnavailableError,
)

logger = logging.getLogger(__name__)


class RestError(Exception):
    """The answer to a request that cannot be fulfilled.

    Source: org.apache.flink.runtime.rest.handler.RestHandlerException.
    """

    def __init__(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def not_found(message: str) -> RestError:
    return RestError(HTTPStatus.NOT_FOUND, message)


def bad_request(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, message)


#: The statuses of errors that say more than their domain.
_STATUS: tuple[tuple[type[FlinkError], HTTPStatus], ...] = (
    (JobNotFoundError, HTTPStatus.NOT_FOUND),
    (AuthenticationError, HTTPStatus.UNAUTHORIZED),
    (AuthorizationError, HTTPStatus.FORBIDDEN),
    (JobTerminatedWithoutCancellationError, HTTPStatus.CONFLICT),
    (NotLeaderError, HTTPStatus.SERVICE_UNAVAILABLE),
    (RpcUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (RpcTimeoutError, HTTPStatus.GATEWAY_TIMEOUT),
)


def as_rest_error(error: Exception, operation: str) -> RestError:
    """Returns the answer for an error that `operation` raised, and logs the error if it is a defect."""
    if isinstance(error, RestError):
        return error
    if isinstance(error, JobNotFoundError):
        # Flink's words, which programs look for.
        return not_found(f"Job {error.details.get('job_id', '')} not found")
    if isinstance(error, FlinkError):
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
        if status is None:
            is_users = error.domain is ErrorDomain.USER
            status = HTTPStatus.BAD_REQUEST if is_users else HTTPStatus.INTERNAL_SERVER_ERROR
        return RestError(status, bounded_text(error.message or type(error).__name__, MAX_MESSAGE_CHARS))
    reference = secrets.token_hex(4)
    logger.error("%s failed (reference %s)", operation, reference, exc_info=error)
    return RestError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"Internal server error. The log of the Dispatcher has the cause (reference {reference}).",
    )
