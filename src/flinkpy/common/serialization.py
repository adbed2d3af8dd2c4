"""Schemas convert records to bytes and back, for connectors whose records are bytes.

Source: pyflink.common.serialization. Differs: PyFlink's schemas only wrap a Java object; these convert in Python.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation, Types

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema:
    """Converts a record to bytes. Beyond PyFlink: a subclass that defines `serialize` can be used in connectors.

    A subclass may also define `serialize_batch(batch, type_info) -> list[bytes | None]`. Connectors then call it
    instead of `serialize` (`flinkpy.formats.schema.encode_batch`).
    """

    def __init__(self, j_serialization_schema: Any = None) -> None:
        _refuse_java(self, j_serialization_schema)

    def serialize(self, element: Any) -> bytes:
        """Returns the bytes of a record."""
        raise NotImplementedError(f"{type(self).__name__} does not serialize")


class DeserializationSchema:
    """Converts bytes to a record. Beyond PyFlink: a subclass that defines `deserialize` can be used in connectors.

    A subclass may also define `deserialize_batch(messages) -> flinkpy.formats.schema.DecodedBatch`. Connectors then
    call it instead of `deserialize` (`flinkpy.formats.schema.decode_messages`).

    Example:
        class Reading(DeserializationSchema):
            def deserialize(self, message):
                return float(message)

            def get_produced_type(self):
                return Types.DOUBLE()

    Attributes:
        on_error: the handling of messages that cannot be parsed: "fail", "skip" or an OutputTag
            (`flinkpy.formats.bad_records`).
    """

    on_error: Any = "fail"

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        _refuse_java(self, j_deserialization_schema)

    def deserialize(self, message: bytes) -> Any:
        """Returns the record of a message, or None for no record."""
        raise NotImplementedError(f"{type(self).__name__} does not deserialize")

    def get_produced_type(self) -> TypeInformation | None:
        """Returns the type of the records; None for Python objects of any type, which are pickled."""
        return None

    def is_end_of_stream(self, next_element: Any) -> bool:
        """True if the stream ends before this record."""
        return False


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Converts text in one character set. Invalid bytes become U+FFFD, unsupported characters `?`, as in Java."""

    def __init__(self, charset: str = "UTF-8") -> None:
        "".encode(charset)  # raises LookupError for an unknown character set
        SerializationSchema.__init__(self)
        self._charset = charset

    @property
    def charset(self) -> str:
        return self._charset

    def serialize(self, element: str) -> bytes:
        return element.encode(self._charset, "replace")

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._charset, "replace")

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Passes bytes through unchanged."""

    def __init__(self) -> None:
        SerializationSchema.__init__(self)

    def serialize(self, element: bytes) -> bytes:
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """Serializes one field of a row, which must be bytes; None becomes empty bytes."""

    def __init__(self, field_index: int) -> None:
        if not isinstance(field_index, int) or isinstance(field_index, bool):
            raise TypeError("field_index must be an integer")
        if field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index}")
        super().__init__()
        self._field_index = field_index

    def get_field_index(self) -> int:
        return self._field_index

    def serialize(self, element: Any) -> bytes:
        if element is None:
            return b""
        value = element[self._field_index]
        if value is None:
            return b""
        if not isinstance(value, (bytes, bytearray)):
            raise TypeError(f"Field at index {self._field_index} must be bytes, but was {type(value).__name__}")
        return bytes(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and self._field_index == other._field_index

    def __hash__(self) -> int:
        return hash(self._field_index)

    def __str__(self) -> str:
        return f"RowFieldExtractorSchema(field_index={self._field_index})"


class Encoder:
    """Writes records in a row-format file sink."""

    def __init__(self, j_encoder: Any) -> None:
        self._charset = str(j_encoder)

    @property
    def charset(self) -> str:
        return self._charset

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Returns an encoder that writes `str(record)` and a line feed."""
        "".encode(charset_name)
        return Encoder(charset_name)


class BulkWriterFactory:
    """Base class of the bulk formats of a file sink."""

    def __init__(self, j_bulk_writer_factory: Any = None) -> None:
        _refuse_java(self, j_bulk_writer_factory)


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A bulk format for rows of a known type."""

    def __init__(self, j_bulk_writer_factory: Any, row_type: Any) -> None:
        super().__init__(j_bulk_writer_factory)
        self._row_type = row_type

    def get_row_type(self) -> Any:
        return self._row_type


def _refuse_java(owner: object, j_object: Any) -> None:
    if j_object is not None:
        raise UnsupportedOperationError(
            f"{type(owner).__name__}: Java objects are not supported, because flinkpy has no JVM"
        )
