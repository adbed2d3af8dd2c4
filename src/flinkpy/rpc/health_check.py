"""Client of the health service, for probes.

Source: grpc.health.v1. Kubernetes' own gRPC probes send neither token nor certificate, so a cluster refuses them.
"""

from __future__ import annotations

import enum

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from flinkpy.rpc.client import CHANNEL_OPTIONS, call_metadata, typed_error
from flinkpy.rpc.security import open_channel
from flinkpy.rpc.services import full_service_name
from flinkpy.security import SecurityContext


class Health(enum.Enum):
    """The health of one service in a process."""

    #: The process serves it; with leader election, it leads.
    SERVING = "serving"
    #: The process is healthy and can take over from the leader.
    STANDING_BY = "standing by"
    #: The process is ending, or does not have this service.
    NOT_SERVING = "not serving"

    @property
    def is_ready(self) -> bool:
        return self is not Health.NOT_SERVING


def check_health(service: str, address: str, *, security: SecurityContext, timeout_s: float) -> Health:
    """Returns the health of `service` (e.g. "Dispatcher") in the process at `address`.

    Raises: RpcUnavailableError if the process cannot be reached, RpcTimeoutError, AuthenticationError.
    """
    channel = open_channel(address, CHANNEL_OPTIONS, security)
    try:
        stub = health_pb2_grpc.HealthStub(channel)
        metadata = call_metadata(None, security, service)
        if _is_serving(stub, full_service_name(service), address, metadata, timeout_s):
            return Health.SERVING
        is_well = _is_serving(stub, "", address, metadata, timeout_s)
        return Health.STANDING_BY if is_well else Health.NOT_SERVING
    finally:
        channel.close()


def _is_serving(
    stub: health_pb2_grpc.HealthStub, name: str, address: str, metadata: tuple[tuple[str, str], ...], timeout_s: float
) -> bool:
    request = health_pb2.HealthCheckRequest(service=name)
    try:
        answer = stub.Check(request, timeout=timeout_s, metadata=metadata)
    except grpc.RpcError as error:
        raise typed_error(error, "Health", "check", address) from None
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
