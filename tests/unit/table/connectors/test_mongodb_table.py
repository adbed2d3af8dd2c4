"""Tables of MongoDB: documents as rows and back, conditions, parts of collections, and what is refused."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InputFormatError, MongoError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.connectors.mongodb.client import MongoConnectionOptions
from flinkpy.connectors.mongodb.splitters import MongoReadOptions, split_collection
from flinkpy.records.batch import Batch
from flinkpy.sql.rex import InputRef, Literal, RexCall
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema, UniqueConstraint
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, UPSERT
from flinkpy.table.connectors.mongodb import WritesOfRows
from flinkpy.table.connectors.mongodb_documents import RowsOfDocuments, values_of
from flinkpy.table.connectors.mongodb_filters import filter_of
from flinkpy.table.connectors.registry import create_sink, create_source
from flinkpy.table.schema import Schema

pytest.importorskip("pymongo")

PAIR = (("id", types.IntType(nullable=False)), ("v", types.VarCharType()))
HEX = "65f0c0ffee00000000000001"


def table_of(columns: Any = PAIR, keys: tuple[str, ...] = (), parts: tuple[str, ...] = (), **options: str) -> Any:
    given = {"connector": "mongodb", "uri": "mongodb://h:1", "database": "d", "collection": "c", **options}
    key = UniqueConstraint("pk", keys) if keys else None
    schema = ResolvedSchema(ResolvedSchema.physical(*columns).columns, (), key)
    return ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), given, parts), schema)


def read(kind: types.LogicalType, *values: Any) -> list[Any]:
    rows = RowsOfDocuments(types.RowType.of(("f", kind)))
    return pickle.loads(pickle.dumps(rows))([{"f": value} for value in values]).column(0).to_pylist()


def test_values_are_read_as_flink_converts_them() -> None:
    from bson import DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

    assert read(types.BooleanType(), True, 1, Int64(2), "TRUE", None) == [True, True, False, True, None]
    assert read(types.TinyIntType(), 300, "-3") == [44, -3]
    assert read(types.IntType(), 2.9, 1e20, Decimal128("-7.5"), DatetimeMS(5999), "8") == [2, 2**31 - 1, -7, 5, 8]
    assert read(types.BigIntType(), DatetimeMS(5999), Timestamp(7, 1), Decimal128("inf")) == [5999, 7000, 2**63 - 1]
    assert read(types.DoubleType(), 1, Decimal128("2.5"), "3") == [1.0, 2.5, 3.0]
    decimals = read(types.DecimalType(4, 2), Decimal128("1.005"), 2.5, "100", Decimal128("NaN"), 7)
    assert decimals == [Decimal("1.01"), Decimal("2.50"), None, None, Decimal("7.00")]
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)
    milliseconds = int(moment.replace(tzinfo=datetime.UTC).timestamp() * 1000)
    assert read(types.TimestampType(6), DatetimeMS(milliseconds)) == [moment]
    texts = read(
        types.VarCharType(),
        ObjectId(HEX),
        1,
        1.5,
        False,
        b"\x0f",
        DatetimeMS(milliseconds),
        Regex("a", "i"),
        {"a": [1, "b"]},
    )
    assert texts == [HEX, "1", "1.5", "false", "0f", "2024-01-02T03:04:05.678Z", "/a/i", '{"a": [1, "b"]}']
    nested = types.RowType.of(("m", types.MapType(types.VarCharType(), types.ArrayType(types.IntType()))))
    assert read(nested, {"m": {"k": [1, None]}}, {}) == [{"m": [("k", [1, None])]}, {"m": None}]


def test_value_that_has_no_form_is_named_with_its_field() -> None:
    with pytest.raises(InputFormatError, match=r"field 'f': Unable to convert to integer from unexpected value '\[\]'"):
        read(types.IntType(), [])
    with pytest.raises(InputFormatError, match="field 'f': Unable to convert to <INT NOT NULL> from nullable value"):
        read(types.IntType(nullable=False), None)
    with pytest.raises(ValidationError, match="column 'd': Unsupported type: DATE"):
        create_source(table_of((("d", types.DateType()),)), Configuration())


def test_values_come_back_as_they_were_written() -> None:
    row = types.RowType.of(
        ("x", types.DecimalType(5, 2)), ("y", types.MapType(types.VarCharType(), types.BigIntType()))
    )
    kinds = {
        "a": (types.BigIntType(), [2**40, 1, None]),
        "b": (types.DecimalType(6, 3), [Decimal("1.250"), None, Decimal("-0.001")]),
        "c": (types.TimestampType(9), [datetime.datetime(2024, 1, 2, 3, 4, 5, 678000), None, None]),
        "d": (types.ArrayType(row), [[{"x": Decimal("1.50"), "y": [("k", 1)]}, None], [], None]),
        "e": (types.VarBinaryType(), [b"\x00\x01", b"", None]),
    }
    from bson import decode, encode
    from bson.codec_options import CodecOptions, DatetimeConversion

    row_type = types.RowType.of(*((name, kind) for name, (kind, _) in kinds.items()))
    given = pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for (_, values), field in zip(kinds.values(), schema_of(row_type))],
        schema=schema_of(row_type),
    )
    columns = [values_of(column, field.type) for column, field in zip(given.columns, row_type.fields)]
    options: Any = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
    documents = [decode(encode(dict(zip(kinds, values))), options) for values in zip(*columns)]
    assert RowsOfDocuments(row_type)(documents).equals(given)


def writes(keys: tuple[int, ...], rows: list[Any], kinds: list[RowKind], columns: Any = PAIR, **more: Any) -> list[Any]:
    row_type = types.RowType.of(*columns)
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows), schema_of(row_type))]
    batch = Batch(
        pa.RecordBatch.from_arrays(arrays, schema=schema_of(row_type)),
        None,
        np.array([k.value for k in kinds], np.int8),
    )
    return WritesOfRows(row_type, keys, more.get("shard_keys", ()))(batch)


def test_changes_update_and_delete_documents_by_key() -> None:
    from bson import ObjectId
    from pymongo import DeleteOne, InsertOne, UpdateOne

    rows, kinds = [(1, "a"), (2, "b")], [RowKind.UPDATE_AFTER, RowKind.DELETE]
    assert writes((), rows, [RowKind.INSERT] * 2) == [InsertOne({"id": 1, "v": "a"}), InsertOne({"id": 2, "v": "b"})]
    assert writes((0,), rows, kinds) == [
        UpdateOne({"_id": 1}, {"$set": {"id": 1, "v": "a"}}, upsert=True),
        DeleteOne({"_id": 2}),
    ]
    assert writes((0, 1), rows[1:], kinds[1:]) == [DeleteOne({"_id": {"id": 2, "v": "b"}})]
    assert writes((0,), rows[:1], kinds[:1], shard_keys=(1,)) == [
        UpdateOne({"_id": 1, "v": "a"}, {"$set": {"id": 1}}, upsert=True)
    ]
    columns = (("_id", types.VarCharType(nullable=False)), ("v", types.VarCharType()))
    assert writes((0,), [(HEX, "a")], kinds[:1], columns) == [
        UpdateOne({"_id": ObjectId(HEX)}, {"$set": {"v": "a"}}, upsert=True)
    ]


def call(function: str, *arguments: Any) -> RexCall:
    return RexCall(types.BooleanType(), function, arguments)


def test_conditions_become_filters_only_if_the_server_finds_all_rows() -> None:
    from bson import ObjectId

    kinds = (types.IntType(), types.VarCharType(), types.TimestampType(6), types.DecimalType(5, 2))
    row_type = types.RowType.of(*zip(("n", "_id", "t", "d"), kinds))
    n, key, t, d = (InputRef(kind, place) for place, kind in enumerate(kinds))
    five = Literal(kinds[0], 5)
    assert filter_of(call("<", five, n), row_type) == {"n": {"$gt": 5}}
    either = call("OR", call("=", n, five), call("IS NULL", n))
    assert filter_of(either, row_type) == {"$or": [{"n": {"$eq": 5}}, {"n": {"$eq": None}}]}
    assert filter_of(call("AND", either, call("LIKE", key, five)), row_type) is None
    assert filter_of(call("=", key, Literal(kinds[1], HEX)), row_type) == {"_id": {"$in": [HEX, ObjectId(HEX)]}}
    assert filter_of(call("<", key, Literal(kinds[1], HEX)), row_type) is None
    assert filter_of(call("=", d, Literal(kinds[3], Decimal("1.1"))), row_type) is None, (
        "the double 1.1 is another number"
    )
    assert filter_of(call("IS NULL", d), row_type) is None, "a decimal that does not fit is NULL here only"
    exact = datetime.datetime(2024, 1, 1, 0, 0, 0, 1000)
    assert filter_of(call("<", t, Literal(kinds[2], exact)), row_type) == {"t": {"$lt": exact}}
    finer = Literal(kinds[2], exact.replace(microsecond=1))
    assert filter_of(call("<", t, finer), row_type) is None, "MongoDB has milliseconds"


class Answers:
    """A client whose collection has the given keys; commands have fixed answers."""

    def __init__(self, keys: list[Any], **answers: Any) -> None:
        self.keys = keys
        self.answers = answers

    def __getitem__(self, _: str) -> Answers:
        return self

    def command(self, command: dict[str, Any]) -> Any:
        answer = self.answers[next(iter(command))]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def find_one(self, _: Any) -> Any:
        return self.answers.get("sharded")

    def find(self, *_: Any) -> Any:
        return self

    def sort(self, *_: Any) -> Any:
        return self.answers["chunks"]

    def aggregate(self, stages: list[Any], **_: Any) -> Any:
        return ({"_id": key} for key in sorted(self.keys)[: stages[0]["$sample"]["size"]])


CONNECTION = MongoConnectionOptions("mongodb://h", "d", "c")


def bounds(client: Any, **options: Any) -> list[Any]:
    found = split_collection(client, CONNECTION, MongoReadOptions(**options))
    return [tuple(None if each is None else each[0][1] for each in (split.lower, split.upper)) for split in found]


def test_collection_is_divided_by_split_vector_or_samples() -> None:
    from pymongo.errors import OperationFailure

    assert bounds(Answers([], splitVector={"splitKeys": [{"_id": 5}, {"_id": 9}]})) == [(None, 5), (5, 9), (9, None)]
    missing = OperationFailure("no such command", 59)
    some = Answers(list(range(40)), splitVector=missing, collStats={"count": 40, "avgObjSize": 100})
    assert bounds(some) == [(None, None)], "the collection is smaller than a partition"
    sizes = {"partition_size_bytes": 1_000, "samples_per_partition": 10}
    assert bounds(some, partition_strategy="sample", **sizes) == [(None, 10), (10, 20), (20, 30), (30, None)]
    with pytest.raises(MongoError, match=r"d\.c: cannot be divided by the strategy default.*broken"):
        bounds(Answers([], splitVector=OperationFailure("broken", 1)))


def test_chunks_of_a_sharded_collection_are_its_splits() -> None:
    chunks = [{"_id": 1, "min": {"k": 0}, "max": {"k": 5}}, {"_id": 2, "min": {"k": 5}, "max": {"k": 9}}]
    client = Answers([], sharded={"key": {"k": 1}, "uuid": "u"}, chunks=chunks)
    assert bounds(client) == [(0, 5), (5, 9)]
    assert split_collection(client, CONNECTION, MongoReadOptions())[0].hint == (("k", 1),)
    with pytest.raises(MongoError, match="is not sharded"):
        bounds(Answers([]), partition_strategy="sharded")


def test_sink_takes_updates_only_with_a_key() -> None:
    assert create_sink(table_of(), Configuration()).changelog_mode(UPSERT) == INSERT_ONLY
    assert create_sink(table_of(keys=("id",)), Configuration()).changelog_mode(INSERT_ONLY) == UPSERT


@pytest.mark.parametrize(
    ("columns", "keys", "options", "message"),
    [
        (PAIR, (), {"uri": "http://h"}, "mongodb: the URI of MongoDB is invalid"),
        (PAIR, (), {"sink.delivery-guarantee": "exactly-once"}, "'exactly-once' is not supported"),
        ((("_id", types.IntType()), ("v", types.IntType())), (), {}, "Ambiguous keys"),
        ((("b", types.VarBinaryType(nullable=False)),), ("b",), {}, "illegal types: b BYTES NOT NULL"),
        (PAIR, (), {"uris": "x"}, "uris \\(did you mean 'uri'\\?\\)"),
    ],
)
def test_wrong_sinks_are_refused(columns: Any, keys: tuple[str, ...], options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        create_sink(table_of(columns, keys, **options), Configuration())


def test_pages_need_their_size() -> None:
    with pytest.raises(ValidationError, match=r"scan\.partition\.record-size"):
        create_source(table_of(**{"scan.partition.strategy": "pagination"}), Configuration())
