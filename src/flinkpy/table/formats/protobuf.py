"""The format `protobuf`: rows as messages of a Protobuf definition.

Source: org.apache.flink.formats.protobuf.{PbFormatFactory, PbFormatOptions, deserialize.PbToRowConverter,
serialize.RowToPbConverter}. Differs: the class is one of Python, or a message in a file of descriptors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import TypeMismatchError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.formats.schema import MessageError, reason_of
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.formats.message_schemas import (
    DecodedChanges,
    TableDeserializationSchema,
    TableSerializationSchema,
)
from flinkpy.table.formats.protobuf_types import MessageType, check_message, is_map
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from google.protobuf.descriptor import FieldDescriptor

    from flinkpy.table.connectors.table_options import TableOptions

Convert = Callable[[Any], Any]

MESSAGE_CLASS: ConfigOption[str | None] = ConfigOption(
    "message-class-name",
    OptionType.STRING,
    None,
    "The generated class, such as shop.orders_pb2.Order; with a descriptor file the full name of the message.",
)
DESCRIPTOR_FILE: ConfigOption[str | None] = ConfigOption(
    "descriptor-file",
    OptionType.STRING,
    None,
    "A file that protoc --include_imports --descriptor_set_out has written. Beyond Flink.",
)
IGNORE_PARSE_ERRORS = ConfigOption(
    "ignore-parse-errors", OptionType.BOOL, False, "True to skip messages that cannot be read."
)
READ_DEFAULTS = ConfigOption(
    "read-default-values",
    OptionType.BOOL,
    False,
    "True to read the default of a field that is not set; else null. Plain fields of proto3 always have defaults.",
)
NULL_LITERAL = ConfigOption(
    "write-null-string-literal", OptionType.STRING, "", "The text for null in arrays and maps of texts."
)
_PLAIN = (
    types.BooleanType,
    types.IntType,
    types.BigIntType,
    types.FloatType,
    types.DoubleType,
    types.CharType,
    types.VarCharType,
    types.BinaryType,
    types.VarBinaryType,
)
_TEXTS = (types.CharType, types.VarCharType)


class ProtobufTableFormat(TableFormat):
    """Messages, whose fields are matched with the columns by name."""

    identifier = "protobuf"
    required_options = (MESSAGE_CLASS,)
    optional_options: tuple[ConfigOption[Any], ...] = (
        DESCRIPTOR_FILE,
        IGNORE_PARSE_ERRORS,
        READ_DEFAULTS,
        NULL_LITERAL,
    )

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        message = _message_of(row_type, options)
        return _ProtobufReader(row_type, message, options.get(READ_DEFAULTS), options.get(IGNORE_PARSE_ERRORS))

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        return _ProtobufWriter(row_type, _message_of(row_type, options), options.get(NULL_LITERAL))


def _message_of(row_type: RowType, options: TableOptions) -> MessageType:
    """Returns the message, whose fields fit the columns. Raises: ValidationError."""
    name, file = options.get(MESSAGE_CLASS) or "", options.get(DESCRIPTOR_FILE)
    found = MessageType.of_class(name) if file is None else MessageType.of_file(file, name)
    check_message(found.descriptor, row_type)
    return found


class _ProtobufReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, message: MessageType, reads_defaults: bool, ignores_errors: bool) -> None:
        super().__init__(row_type)
        self._message = message
        self._reads_defaults = reads_defaults
        self._ignores_errors = ignores_errors

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        import numpy as np
        import pyarrow as pa
        from google.protobuf.message import DecodeError

        parse = self._message.message_class.FromString
        found, positions, errors = [], [], []
        for position, message in enumerate(messages):
            if message is None:
                continue
            try:
                found.append(parse(message))
                positions.append(position)
            except DecodeError as error:
                if not self._ignores_errors:
                    errors.append(MessageError(position, f"it is no {self._message.name}: {reason_of(error)}"))
        readers = _Reading(self._reads_defaults, self._message.is_proto3).fields(
            self._message.descriptor, self.row_type
        )
        schema = schema_of(self.row_type)
        arrays = [pa.array(list(map(read, found)), field.type) for (_, read), field in zip(readers, schema)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return DecodedChanges(rows, None, np.array(positions, np.int64), errors)


class _Reading:
    """Makes functions from a message to the values of its fields.

    Args:
        reads_defaults: True if a field that is not set has its default.
        is_proto3: True if plain fields always have defaults.
    """

    def __init__(self, reads_defaults: bool, is_proto3: bool) -> None:
        self._reads_defaults = reads_defaults
        self._plain_defaults = reads_defaults or is_proto3

    def fields(self, descriptor: Any, row_type: RowType) -> list[tuple[str, Convert]]:
        """Returns the name of each column and the function that reads it from a message."""
        return [(each.name, self._field(descriptor.fields_by_name[each.name], each.type)) for each in row_type.fields]

    def _field(self, field: FieldDescriptor, kind: LogicalType) -> Convert:
        name, read = field.name, self._value(field, kind)
        if field.is_repeated:
            if self._reads_defaults:
                return lambda message: read(getattr(message, name))
            return lambda message: read(values) if (values := getattr(message, name)) else None
        has_default = self._plain_defaults if isinstance(kind, _PLAIN) else self._reads_defaults
        if has_default or not field.has_presence:
            return lambda message: read(getattr(message, name))
        return lambda message: read(getattr(message, name)) if message.HasField(name) else None

    def _value(self, field: Any, kind: LogicalType) -> Convert:
        if isinstance(kind, types.MapType):
            entry = field.message_type.fields_by_name
            read_key, read_value = self._value(entry["key"], kind.key), self._value(entry["value"], kind.value)
            # Not `items()`: of messages it would be slower.
            return lambda values: [(read_key(key), read_value(values[key])) for key in values]
        if isinstance(kind, types.ArrayType):
            read = self._value(field, kind.element)
            return lambda values: [read(value) for value in values]
        if isinstance(kind, RowType):
            fields = self.fields(field.message_type, kind)
            return lambda message: {name: read(message) for name, read in fields}
        return _plain_reader(field, kind)


def _plain_reader(field: FieldDescriptor, kind: LogicalType) -> Convert:
    if field.enum_type is not None and isinstance(kind, _TEXTS):
        names = {value.number: value.name for value in field.enum_type.values}
        # A newer writer may know more values.
        return lambda number: names.get(number, "UNRECOGNIZED")
    bits = {field.CPPTYPE_UINT32: 32, field.CPPTYPE_UINT64: 64}.get(field.cpp_type)
    if bits is not None:
        # As in Java, an unsigned number is the signed one with the same bits.
        half, whole = 1 << (bits - 1), 1 << bits
        return lambda number: number - whole if number >= half else number
    return lambda value: value


class _ProtobufWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, message: MessageType, null_literal: str) -> None:
        super().__init__(row_type)
        self._message = message
        self._null_literal = null_literal

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        make = self._message.message_class
        fill = _Writing(self._null_literal).filler(self._message.descriptor, self.row_type)
        found: list[bytes | None] = []
        for row in zip(*(column.to_pylist() for column in rows.columns)):
            message = make()
            try:
                fill(message, row)
                found.append(message.SerializeToString())
            except (ValueError, TypeError) as error:
                raise TypeMismatchError(f"{row!r} does not fit the message {self._message.name}: {error}") from error
        return found


class _Writing:
    """Makes functions that fill messages. Fields that are null are not set.

    Args:
        null_literal: the text for null in arrays and maps, whose elements cannot be null.
    """

    def __init__(self, null_literal: str) -> None:
        self._null_literal = null_literal

    def filler(self, descriptor: Any, row_type: RowType) -> Callable[[Any, Sequence[Any]], None]:
        """Returns a function that sets the fields of a message to the values of a row, in the order of its columns."""
        setters = [self._setter(descriptor.fields_by_name[each.name], each.type) for each in row_type.fields]

        def fill(message: Any, row: Sequence[Any]) -> None:
            for set_field, value in zip(setters, row, strict=True):
                if value is not None:
                    set_field(message, value)

        return fill

    def _setter(self, field: FieldDescriptor, kind: LogicalType) -> Callable[[Any, Any], None]:
        name = field.name
        if is_map(field) and isinstance(kind, types.MapType):
            return self._map_setter(field, kind)
        if isinstance(kind, types.ArrayType):
            return self._array_setter(field, kind)
        if isinstance(kind, RowType):
            fill = self.filler(field.message_type, kind)

            def set_message(message: Any, value: dict[str, Any]) -> None:
                inner = getattr(message, name)
                inner.SetInParent()
                fill(inner, list(value.values()))

            return set_message
        write = _plain_writer(field, kind)
        return lambda message, value: setattr(message, name, write(value))

    def _array_setter(self, field: FieldDescriptor, kind: types.ArrayType) -> Callable[[Any, Any], None]:
        name = field.name
        if isinstance(kind.element, RowType):
            fill = self.filler(field.message_type, kind.element)

            def add_messages(message: Any, values: list[Any]) -> None:
                for value in values:
                    inner = getattr(message, name).add()
                    if value is not None:
                        fill(inner, list(value.values()))

            return add_messages
        write = self._element_writer(field, kind.element)
        return lambda message, values: getattr(message, name).extend([write(value) for value in values])

    def _map_setter(self, field: Any, kind: types.MapType) -> Callable[[Any, Any], None]:
        name, entry = field.name, field.message_type.fields_by_name
        write_key = self._element_writer(entry["key"], kind.key)
        if isinstance(kind.value, RowType):
            fill = self.filler(entry["value"].message_type, kind.value)

            def set_messages(message: Any, items: list[tuple[Any, Any]]) -> None:
                for key, value in items:
                    # Reading a key that is not there adds an empty message.
                    inner = getattr(message, name)[write_key(key)]
                    if value is not None:
                        fill(inner, list(value.values()))

            return set_messages
        write_value = self._element_writer(entry["value"], kind.value)

        def set_values(message: Any, items: list[tuple[Any, Any]]) -> None:
            target = getattr(message, name)
            for key, value in items:
                target[write_key(key)] = write_value(value)

        return set_values

    def _element_writer(self, field: FieldDescriptor, kind: LogicalType) -> Convert:
        write, is_text = _plain_writer(field, kind), isinstance(kind, _TEXTS) and field.enum_type is None
        null = self._null_literal if is_text else _default_of(field)
        return lambda value: null if value is None else write(value)


def _default_of(field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[0].number
    if field.cpp_type == field.CPPTYPE_STRING:
        return b"" if field.type == field.TYPE_BYTES else ""
    return 0


def _plain_writer(field: FieldDescriptor, kind: LogicalType) -> Convert:
    if field.enum_type is not None:
        known: dict[Any, int] = {value.number: value.number for value in field.enum_type.values}
        if isinstance(kind, _TEXTS):
            known = {value.name: value.number for value in field.enum_type.values}
        # As in Flink, an unknown value becomes the first one.
        first = field.enum_type.values[0].number
        return lambda value: known.get(value, first)
    bits = {field.CPPTYPE_UINT32: 32, field.CPPTYPE_UINT64: 64}.get(field.cpp_type)
    if bits is not None:
        whole = 1 << bits
        return lambda number: number + whole if number < 0 else number
    return lambda value: value
