"""The services of the proto files, in the form that server and client need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor

from flinkpy._proto import dispatcher_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2

_FILES = (dispatcher_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2)

METADATA_FENCING_TOKEN = "flinkpy-fencing-token"

#: The maximum size of a message. Larger objects (graphs, user code) are sent through the BlobServer.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service: its Python name, its full path, its message classes and which sides stream."""

    name: str
    path: str
    request_class: Any
    response_class: Any
    client_streaming: bool
    server_streaming: bool

    def stub(self, channel: Any) -> Any:
        """Returns the callable of a `grpc.Channel` or `grpc.aio.Channel` for this method."""
        request, response = (
            "stream" if streams else "unary" for streams in (self.client_streaming, self.server_streaming)
        )
        return getattr(channel, f"{request}_{response}")(
            self.path,
            request_serializer=self.request_class.SerializeToString,
            response_deserializer=self.response_class.FromString,
        )


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@cache
def service_methods(service: str) -> dict[str, Method]:
    """Returns the methods of `service` (e.g. "Dispatcher") by their names in snake_case."""
    descriptor = _service_descriptor(service)
    methods = {}
    for method in descriptor.methods:
        name = snake_case(method.name)
        methods[name] = Method(
            name=name,
            path=f"/{descriptor.full_name}/{method.name}",
            request_class=message_factory.GetMessageClass(method.input_type),
            response_class=message_factory.GetMessageClass(method.output_type),
            client_streaming=method.client_streaming,
            server_streaming=method.server_streaming,
        )
    return methods


def full_service_name(service: str) -> str:
    return _service_descriptor(service).full_name


def _service_descriptor(service: str) -> ServiceDescriptor:
    for file in _FILES:
        found = file.DESCRIPTOR.services_by_name.get(service)
        if found is not None:
            return found
    raise KeyError(f"no service {service!r} in the proto files")
