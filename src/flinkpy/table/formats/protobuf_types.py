"""MessageType: the definition of a Protobuf message that travels to the tasks, which need not have its module.

Source: org.apache.flink.formats.protobuf.util.{PbFormatUtils, PbSchemaValidationUtils}.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType, RowType

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

#: Kind of values in `FieldDescriptor.cpp_type` -> the logical types of columns.
_COLUMN_TYPES: dict[int, tuple[type[LogicalType], ...]] = {
    1: (types.IntType,),
    2: (types.BigIntType,),
    3: (types.IntType,),
    4: (types.BigIntType,),
    5: (types.DoubleType,),
    6: (types.FloatType,),
    7: (types.BooleanType,),
    8: (
        types.VarCharType,
        types.CharType,
        types.TinyIntType,
        types.SmallIntType,
        types.IntType,
        types.BigIntType,
    ),
}
_TEXTS, _BYTES = (types.VarCharType, types.CharType), (types.VarBinaryType, types.BinaryType)


class MessageType:
    """A message and the files that define it. Picklable.

    Args:
        files: a serialized FileDescriptorSet.
        name: the full name of the message, such as `shop.Order`.
    """

    def __init__(self, files: bytes, name: str) -> None:
        self._files = files
        self.name = name
        self._made: Any = None

    @staticmethod
    def of_class(path: str) -> MessageType:
        """Returns the message of a class that protoc has generated.

        Args:
            path: module and class, such as `shop.orders_pb2.Order` or `shop.orders_pb2.Order.Item`.

        Raises: ValidationError if there is no such class.
        """
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import Message

        found = _imported(path)
        if not (isinstance(found, type) and issubclass(found, Message)):
            raise ValidationError(
                f"{path} is not a message class of Protobuf", details={"option": "message-class-name"}
            )
        descriptor: Any = found.DESCRIPTOR
        files = FileDescriptorSet()
        _add_files(descriptor.file, files, set())
        return MessageType(files.SerializeToString(), descriptor.full_name)

    @staticmethod
    def of_file(path: str, name: str) -> MessageType:
        """Returns a message of a file that `protoc --include_imports --descriptor_set_out` has written.

        Raises: ValidationError if the file cannot be read, or has no such message.
        """
        from google.protobuf.message import DecodeError

        try:
            with open(path, "rb") as file:
                found = MessageType(file.read(), name)
            found.descriptor  # noqa: B018 - fails if the message is not there
        except (OSError, DecodeError, KeyError, TypeError) as error:
            raise ValidationError(
                f"the file {path} has no definition of the message {name}: {error}",
                details={"option": "descriptor-file", "value": path},
            ) from error
        return found

    @property
    def message_class(self) -> Any:
        if self._made is None:
            from google.protobuf.descriptor_pb2 import FileDescriptorSet
            from google.protobuf.descriptor_pool import DescriptorPool
            from google.protobuf.message_factory import GetMessageClass

            pool = DescriptorPool()
            for file in FileDescriptorSet.FromString(self._files).file:
                pool.Add(file)
            self._made = GetMessageClass(pool.FindMessageTypeByName(self.name))
        return self._made

    @property
    def descriptor(self) -> Descriptor:
        found: Descriptor = self.message_class.DESCRIPTOR
        return found

    @property
    def is_proto3(self) -> bool:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        proto = FileDescriptorProto()
        self.descriptor.file.CopyToProto(proto)
        return proto.syntax == "proto3"

    def __getstate__(self) -> Any:
        return (self._files, self.name)

    def __setstate__(self, state: Any) -> None:
        self._files, self.name = state
        self._made = None


def _imported(path: str) -> Any:
    """Returns the object at a path of a module and names in it. Raises: ValidationError."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # A module that this one imports may be missing, which is another fault.
            if error.name is not None and not f"{module}.".startswith(f"{error.name}."):
                raise ValidationError(f"cannot import {module}: {error}") from error
            continue
        for name in parts[length:]:
            found = getattr(found, name, None)
        if found is not None:
            return found
    raise ValidationError(
        f"get {path} class failed: it must be the path of a Python class such as shop.orders_pb2.Order, or with "
        "'protobuf.descriptor-file' the full name of a message",
        details={"option": "message-class-name", "value": path},
    )


def _add_files(file: Any, files: Any, seen: set[str]) -> None:
    """Adds a file after those that it imports."""
    if file.name not in seen:
        seen.add(file.name)
        for each in file.dependencies:
            _add_files(each, files, seen)
        file.CopyToProto(files.file.add())


def is_map(field: FieldDescriptor) -> bool:
    entry = field.message_type
    return entry is not None and entry.GetOptions().map_entry


def check_message(descriptor: Descriptor, row_type: RowType) -> None:
    """Raises: ValidationError that names a column that the message does not have, or with another type."""
    for each in row_type.fields:
        field = descriptor.fields_by_name.get(each.name)
        if field is None:
            raise ValidationError(
                f"Column {each.name} does not exists in definition of proto class {descriptor.full_name}. Its fields "
                f"are {', '.join(descriptor.fields_by_name)}",
                details={"column": each.name},
            )
        _check_field(field, each.type, each.name)


def _check_field(field: Any, kind: Any, column: str) -> None:
    is_list = field.is_repeated and not is_map(field)
    if is_map(field):
        fits = isinstance(kind, types.MapType)
    elif is_list:
        fits = isinstance(kind, types.ArrayType)
    else:
        fits = _fits(field, kind)
    if not fits:
        raise _mismatch(field, kind, column)
    if is_map(field):
        entry = field.message_type.fields_by_name
        _check_field(entry["key"], kind.key, f"{column}.key")
        _check_field(entry["value"], kind.value, f"{column}.value")
    elif is_list:
        _check_element(field, kind.element, column)
    elif isinstance(kind, RowType):
        check_message(field.message_type, kind)


def _check_element(field: Any, kind: LogicalType, column: str) -> None:
    if not _fits(field, kind):
        raise _mismatch(field, kind, column)
    if isinstance(kind, RowType):
        check_message(field.message_type, kind)


def _fits(field: Any, kind: LogicalType) -> bool:
    if field.message_type is not None:
        return isinstance(kind, RowType)
    if field.cpp_type == field.CPPTYPE_STRING:
        return isinstance(kind, _BYTES if field.type == field.TYPE_BYTES else _TEXTS)
    return isinstance(kind, _COLUMN_TYPES[field.cpp_type])


def _mismatch(field: Any, kind: LogicalType, column: str) -> ValidationError:
    names = {getattr(field, name): name for name in dir(field) if name.startswith("TYPE_")}
    found = names.get(field.type, str(field.type)).removeprefix("TYPE_").lower()
    shown = "map" if is_map(field) else f"repeated {found}" if field.is_repeated else found
    return ValidationError(
        f"Protobuf field type does not match column type, {shown} {field.name} (protobuf) is not compatible for column "
        f"{column} {kind}",
        details={"column": column},
    )
