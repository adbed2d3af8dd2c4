"""The base of the deserialization schemas of CSV and JSON."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from flinkpy.common.serialization import DeserializationSchema
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation

if TYPE_CHECKING:
    from flinkpy.formats.schema import DecodedBatch


class RowMessageDeserializationSchema(DeserializationSchema):
    """Deserializes each message to a Row of the declared type. The parser is created on first use and not pickled."""

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        super().__init__(j_deserialization_schema)
        self._row_type: RowTypeInfo | None = None
        self._options: Any = None
        self._parser: Any = None

    def get_produced_type(self) -> TypeInformation | None:
        return self._row_type

    def deserialize(self, message: bytes) -> Any:
        """Returns the Row of a message; None if there is no message, or if it is malformed and errors are ignored.

        Raises:
            ValueError: the message is malformed.
        """
        if message is None:
            return None
        try:
            return self._row_parser().parse_one(message)
        except ValueError:
            if self._options.ignore_parse_errors:
                return None
            raise

    def deserialize_batch(self, messages: list[bytes | None]) -> DecodedBatch:
        decoded: DecodedBatch = self._row_parser().parse_messages(messages)
        return decoded

    @abstractmethod
    def _make_parser(self, row_type: RowTypeInfo) -> Any:
        """Returns a parser with `parse_one` and `parse_messages`."""

    def _row_parser(self) -> Any:
        if self._parser is None:
            assert self._row_type is not None, "made by the builder"
            self._parser = self._make_parser(self._row_type)
        return self._parser

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parser": None}
