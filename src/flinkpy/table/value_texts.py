"""ValueTexts: how values of results are printed.

Source: org.apache.flink.table.planner.functions.casting.RowDataToStringConverterImpl.
"""

from __future__ import annotations

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.sql.functions.evaluation import CompiledExpressions, compile_expressions
from flinkpy.sql.rex import InputRef, RexCall
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt

NULL_TEXT = "<NULL>"


class ValueTexts:
    """Writes columns as CAST(... AS STRING) does, and bytes as x'...'. Values without such a cast are Python's texts.

    Args:
        row_type: the columns.
        settings: the time zone of the session, in which instants are written.
    """

    def __init__(self, row_type: lt.RowType, settings: SessionSettings) -> None:
        self._casts = [_cast(place, field.type, settings) for place, field in enumerate(row_type.fields)]

    def of(self, batch: pa.RecordBatch) -> list[list[str]]:
        """Returns the texts of each column."""
        return [self._texts(batch, place, cast) for place, cast in enumerate(self._casts)]

    def _texts(self, batch: pa.RecordBatch, place: int, cast: CompiledExpressions | None) -> list[str]:
        column = batch.column(place)
        if cast is not None:
            return [NULL_TEXT if each is None else each for each in cast.evaluate(batch)[0].to_pylist()]
        values = column.to_pylist()
        return [NULL_TEXT if each is None else _plain(each) for each in values]


def _cast(place: int, kind: lt.LogicalType, settings: SessionSettings) -> CompiledExpressions | None:
    if kind.root in (lt.TypeRoot.BINARY, lt.TypeRoot.VARBINARY):
        return None
    call = RexCall(lt.VarCharType(), "CAST", (InputRef(kind, place),))
    try:
        return compile_expressions([call], settings)
    except UnsupportedOperationError:
        return None


def _plain(value: object) -> str:
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)
