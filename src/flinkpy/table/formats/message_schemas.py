"""The schemas of messages in tables: bytes to rows with their kinds of change, and back.

Connectors of message queues get them from `TableFormat.deserialization_schema` and `TableFormat.serialization_schema`.

Source: org.apache.flink.table.connector.format.{DecodingFormat, EncodingFormat}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowType
from flinkpy.sql.types.type_infos import type_info_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkpy.formats.schema import DecodedBatch, MessageError


class DecodedChanges(NamedTuple):
    """The rows of some messages.

    Attributes:
        rows: RecordBatch with the columns of the schema's row type.
        kinds: int8[n], the RowKind of each row; None if all are inserted.
        positions: int64[n], ascending: the index of each row's message.
        errors: the malformed messages, which have no rows.
    """

    rows: pa.RecordBatch
    kinds: np.ndarray | None
    positions: np.ndarray
    errors: Sequence[MessageError] = ()


class TableDeserializationSchema(ABC):
    """Reads messages as rows. Picklable. Thread: any, one at a time.

    Args:
        row_type: the rows.
    """

    def __init__(self, row_type: RowType) -> None:
        self.row_type = row_type

    @abstractmethod
    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        """Decodes messages. None (a tombstone) has no rows."""

    def with_metadata(self, keys: tuple[str, ...]) -> TableDeserializationSchema:
        """Returns a schema whose rows end with these columns of `TableFormat.metadata`."""
        raise UnsupportedOperationError(f"{type(self).__name__} reads no metadata")


class TableSerializationSchema(ABC):
    """Writes rows as messages. Picklable. Thread: any, one at a time.

    Args:
        row_type: the rows.
    """

    def __init__(self, row_type: RowType) -> None:
        self.row_type = row_type

    @abstractmethod
    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        """Returns one message per row.

        Args:
            rows: the columns of the row type.
            kinds: int8[n]; None if all rows are inserted. A format of inserts only does not look at them.
        """


def record_type_of(row_type: RowType) -> RowTypeInfo:
    """Returns the type with which formats below the tables read and write such rows."""
    found = type_info_of(row_type)
    assert isinstance(found, RowTypeInfo)
    return found


def changes_of(decoded: DecodedBatch, count: int, row_type: RowType) -> DecodedChanges:
    """Returns inserted rows.

    Args:
        decoded: what a parser has made of `count` messages.
    """
    import numpy as np

    positions = np.arange(count, dtype=np.int64) if decoded.positions is None else decoded.positions
    return DecodedChanges(columns_of_rows(decoded.values, row_type), None, positions, decoded.errors)


def columns_of_rows(values: Any, row_type: RowType) -> pa.RecordBatch:
    """Returns rows with the Arrow types of a row type.

    Args:
        values: a RecordBatch of `record_type_of(row_type)`, or Rows or sequences of its fields' values.
    """
    from flinkpy.records.batch import Batch
    from flinkpy.records.lanes import to_columns

    columns: Any = to_columns(Batch(values), record_type_of(row_type)).values
    found: pa.RecordBatch = to_columns(Batch(columns), InternalTypeInfo(row_type)).values
    return found


def plain_columns(rows: pa.RecordBatch, row_type: RowType) -> pa.RecordBatch:
    """Returns rows with the Arrow types of `record_type_of(row_type)`."""
    from flinkpy.records.lanes import conform

    return conform(rows, record_type_of(row_type))


def single_field(row_type: RowType, identifier: str) -> Any:
    """Returns the only field of the rows. Raises: ValidationError."""
    if len(row_type.fields) != 1:
        raise ValidationError(
            f"The '{identifier}' format only supports single physical column. However the defined schema contains "
            f"multiple physical columns: {', '.join(row_type.names)}"
        )
    return row_type.fields[0]
