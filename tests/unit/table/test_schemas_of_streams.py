"""A declared schema of a stream gives its columns types, order, and further columns."""

from __future__ import annotations

import pytest

from flinkpy.common import Types
from flinkpy.common.errors import ValidationError
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.table import DataTypes, Schema, StreamTableEnvironment


@pytest.fixture
def stream() -> DataStream:
    kind = Types.ROW([Types.INSTANT(), Types.STRING(), Types.FLOAT()])
    return StreamExecutionEnvironment.get_execution_environment().from_collection([], kind)


def types(stream: DataStream, schema: Schema) -> list[tuple[str, str]]:
    tables = StreamTableEnvironment.create(stream.get_execution_environment())
    columns = tables.from_data_stream(stream, schema).get_resolved_schema().columns
    return [(each.name, str(each.type)) for each in columns]


def test_computed_columns_replace_columns_that_are_not_declared(stream: DataStream) -> None:
    schema = Schema.new_builder().column_by_expression("ts", "CAST(f0 AS TIMESTAMP(3))")
    schema.column("f2", DataTypes.FLOAT()).column("f1", DataTypes.STRING()).watermark("ts", "ts - INTERVAL '3' SECOND")
    assert types(stream, schema.build()) == [("ts", "TIMESTAMP(3) *ROWTIME*"), ("f2", "FLOAT"), ("f1", "STRING")]


def test_a_schema_without_columns_of_the_stream_keeps_them_all(stream: DataStream) -> None:
    schema = Schema.new_builder().column_by_expression("n", "CHAR_LENGTH(f1)").build()
    assert [name for name, _ in types(stream, schema)] == ["f0", "f1", "f2", "n"]


def test_a_column_that_the_stream_lacks_is_named(stream: DataStream) -> None:
    with pytest.raises(ValidationError, match=r"Unable to find a field named 'f3'.* has the columns"):
        types(stream, Schema.new_builder().column("f3", "INT").build())
