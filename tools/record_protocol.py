"""Record what the proto files of a release say, so that later ones can be compared with it.

    python tools/record_protocol.py tests/recorded/protocol_0.1.0.json

The comparison is `tests/unit/rpc/test_protocol_evolution.py`. A release is recorded once, when it is made, and the file
is not changed afterwards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2

from flinkpy._proto import (
    checkpoint_pb2,
    common_pb2,
    dispatcher_pb2,
    job_event_pb2,
    job_pb2,
    jobmaster_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    taskexecutor_pb2,
)

FILES = (
    checkpoint_pb2,
    common_pb2,
    dispatcher_pb2,
    job_event_pb2,
    job_pb2,
    jobmaster_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    taskexecutor_pb2,
)

_FIELD = descriptor_pb2.FieldDescriptorProto


def describe() -> dict[str, Any]:
    """Describes the wire format of the proto files: messages by field number, enums, calls."""
    messages: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    services: dict[str, Any] = {}
    for module in FILES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            _describe_message(f"{file.package}.{message.name}", message, messages, enums)
        for enum in file.enum_type:
            enums[f"{file.package}.{enum.name}"] = {value.name: value.number for value in enum.value}
        for service in file.service:
            services[f"{file.package}.{service.name}"] = {
                method.name: f"{'stream ' if method.client_streaming else ''}{method.input_type} -> "
                f"{'stream ' if method.server_streaming else ''}{method.output_type}"
                for method in service.method
            }
    return {"messages": messages, "enums": enums, "services": services}


def _describe_message(
    name: str, message: descriptor_pb2.DescriptorProto, messages: dict[str, Any], enums: dict[str, Any]
) -> None:
    messages[name] = {
        "fields": {str(field.number): _describe_field(field, message) for field in message.field},
        "reserved": [list(range(one.start, one.end)) for one in message.reserved_range],
    }
    for nested in message.nested_type:
        _describe_message(f"{name}.{nested.name}", nested, messages, enums)
    for enum in message.enum_type:
        enums[f"{name}.{enum.name}"] = {value.name: value.number for value in enum.value}


def _describe_field(field: descriptor_pb2.FieldDescriptorProto, message: descriptor_pb2.DescriptorProto) -> str:
    kind = field.type_name or _FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
    label = "repeated " if field.label == _FIELD.LABEL_REPEATED else "optional " if field.proto3_optional else ""
    in_oneof = field.HasField("oneof_index") and not field.proto3_optional
    oneof = f" of {message.oneof_decl[field.oneof_index].name}" if in_oneof else ""
    return f"{label}{kind} {field.name}{oneof}"


def main() -> None:
    """Write the description to the path given."""
    Path(sys.argv[1]).write_text(json.dumps(describe(), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
