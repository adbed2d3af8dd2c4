"""Authorization of calls: the role that each call requires, and the interceptor that checks it.

A call carries `authorization: Bearer TOKEN` in its metadata. A method that is not in the table requires the role
CLUSTER. The interceptor checks a call before its message is received, so nothing of a refused call is parsed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import AuthenticationError, AuthorizationError, FlinkError
from flinkpy.rpc.error_codec import bounded_error_metadata
from flinkpy.security import Role, SecurityContext
from flinkpy.security.access_token import Audience, check_token

logger = logging.getLogger(__name__)

METADATA_AUTHORIZATION = "authorization"
_SCHEME = "bearer "

_BY_ROLE: dict[Role, dict[str, tuple[str, ...]]] = {
    Role.READ: {
        "flinkpy.Dispatcher": (
            "ListJobs",
            "RequestJob",
            "RequestJobStatus",
            "WatchJobStatus",
            "RequestJobResult",
            "RequestClusterOverview",
            "RequestCheckpointStatistics",
            "RequestAccumulators",
            "RequestMetrics",
            "RequestDiagnosis",
            # Stacks have the names of functions and modules: no values, and no paths.
            "RequestThreadSamples",
        ),
        "flinkpy.ResourceManager": ("RequestTaskManagerInfo", "RequestResourceOverview", "RequestMetrics"),
        "grpc.health.v1.Health": ("Check", "Watch", "List"),
        "grpc.reflection.v1alpha.ServerReflection": ("ServerReflectionInfo",),
    },
    Role.SUBMIT: {
        "flinkpy.Dispatcher": (
            "SubmitJob",
            "CancelJob",
            "UpdateResourceRequirements",
            "ReportJobClientHeartbeat",
            "ShutDownCluster",
            "SendCoordinationRequest",
            # Stacks with paths and lines of code.
            "RequestJobMasterThreads",
            # Logs of user functions may contain records, which the role READ does not show.
            "RequestJobLogs",
            "RequestJobLogRecords",
            "RequestLogRecords",
            "ChangeLogLevels",
            "TriggerCheckpoint",
            "TriggerSavepoint",
            "StopWithSavepoint",
            "DisposeSavepoint",
        ),
        "flinkpy.BlobServer": ("PutBlob", "GetBlob"),
    },
}

#: The lowest role that may make a call, by the path of the call.
REQUIRED_ROLES: dict[str, Role] = {
    f"/{service}/{method}": role
    for role, services in _BY_ROLE.items()
    for service, methods in services.items()
    for method in methods
}

#: The shortest time between two log lines on refused calls: an intruder must not be able to fill a disk.
_LOG_INTERVAL_S = 10.0


def required_role(path: str) -> Role:
    """Returns the lowest role that may call `path`, e.g. `/flinkpy.Dispatcher/ListJobs`."""
    return REQUIRED_ROLES.get(path, Role.CLUSTER)


def token_metadata(security: SecurityContext, service: str) -> tuple[tuple[str, str], ...]:
    """Returns the metadata that authenticates a call of `service`, e.g. "Dispatcher"."""
    token = security.token_for(Audience.of_service(service))
    return ((METADATA_AUTHORIZATION, f"Bearer {token}"),) if token else ()


def check_call(
    security: SecurityContext, path: str, authorization: str | None, audiences: frozenset[Audience], now_s: float
) -> None:
    """Checks the token of a call.

    Args:
        path: the path of the called method.
        authorization: the call's `authorization` metadata, or None.
        audiences: the audiences whose tokens this process accepts.

    Raises:
        AuthenticationError: the call has no valid token.
        AuthorizationError: the role of the token is too low.
    """
    if security.secret is None:
        return
    if authorization is None:
        raise AuthenticationError(
            f"{path}: the call has no token. A client needs the file of the cluster secret (`security.secret-file`, "
            "FLINKPY_SECRET_FILE) or a token that `flinkpy token` made from it (`security.token-file`, FLINKPY_TOKEN); "
            "other programs send it as metadata `authorization: Bearer TOKEN`"
        )
    is_bearer = authorization[: len(_SCHEME)].lower() == _SCHEME
    token = authorization[len(_SCHEME) :].strip() if is_bearer else ""
    try:
        role = check_token(security.secret, token, audiences, now_s)
    except AuthenticationError as error:
        raise AuthenticationError(f"{path}: {error.message}", details=error.details) from None
    required = required_role(path)
    if role < required:
        raise AuthorizationError(
            f"{path}: the token has the role {role.label}, the call requires {required.label}",
            details={"role": role.label, "required": required.label},
        )


class AuthorizationInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses the calls that `check_call` refuses. Thread: the server's loop."""

    def __init__(self, security: SecurityContext) -> None:
        self._security = security
        self._clock = SystemClock()
        self._audiences: frozenset[Audience] = frozenset()
        self._next_log_s = 0.0
        self._not_logged = 0

    def add_audience(self, audience: Audience) -> None:
        """Accepts tokens for this audience from now on."""
        self._audiences |= {audience}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        authorization = None
        for key, value in handler_call_details.invocation_metadata or ():
            if key == METADATA_AUTHORIZATION:
                authorization = value if isinstance(value, str) else ""
                break
        try:
            check_call(
                self._security, handler_call_details.method, authorization, self._audiences, self._clock.now_ms() / 1000
            )
        except FlinkError as error:
            return self._refusal(error)
        return await continuation(handler_call_details)

    def _refusal(self, error: FlinkError) -> grpc.RpcMethodHandler:
        code = grpc.StatusCode.UNAUTHENTICATED
        if isinstance(error, AuthorizationError):
            code = grpc.StatusCode.PERMISSION_DENIED

        async def refuse(requests: object, context: Any) -> None:
            self._log(context.peer(), error)
            await context.abort(code, error.message[:500], bounded_error_metadata(error))

        # A handler of a stream serves any method, and receives no message unless it asks for one.
        return grpc.stream_stream_rpc_method_handler(refuse)

    def _log(self, peer: str, error: FlinkError) -> None:
        now_s = time.monotonic()
        if now_s < self._next_log_s:
            self._not_logged += 1
            return
        more = f" ({self._not_logged} more since the last line)" if self._not_logged else ""
        logger.warning("refused a call from %s: %s%s", peer, error.message[:500], more)
        self._next_log_s, self._not_logged = now_s + _LOG_INTERVAL_S, 0
