"""Tables in streams of Kinesis and Firehose: rows and metadata are read, and partition keys are made of columns."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("botocore")

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InputFormatError, ValidationError
from flinkpy.connectors.kinesis.deserialization import decode
from flinkpy.connectors.kinesis.shards import Shard
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.registry import create_sink, create_source
from flinkpy.table.schema import Schema
from tests.unit.connectors.connector_fakes import TestingWriterContext

COLUMNS = (("id", types.BigIntType()), ("name", types.VarCharType()))
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Service:
    """Takes records as Kinesis and Firehose do."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, str, bytes]] = []

    def put_records(self, Records: list[dict[str, Any]], StreamName: str) -> dict[str, Any]:
        self.stored += [(StreamName, record["PartitionKey"], record["Data"]) for record in Records]
        return {"FailedRecordCount": 0, "Records": [{} for _ in Records]}

    def put_record_batch(self, Records: list[dict[str, Any]], DeliveryStreamName: str) -> dict[str, Any]:
        self.stored += [(DeliveryStreamName, "", record["Data"]) for record in Records]
        return {"FailedPutCount": 0, "RequestResponses": [{} for _ in Records]}


def table(options: dict[str, str], keys: tuple[str, ...] = ()) -> ContextResolvedTable:
    given = {"connector": "kinesis", "stream.arn": "orders", "aws.region": "eu-west-1", "format": "json", **options}
    if given["connector"] == "firehose":
        given["delivery-stream"] = given.pop("stream.arn")
    resolved = ResolvedSchema.physical(*COLUMNS)
    return ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), given, "", keys), resolved)


def source_of(**options: str) -> Any:
    return create_source(table(options), Configuration())


def record(data: bytes, number: int) -> dict[str, Any]:
    return {"Data": data, "SequenceNumber": str(number), "PartitionKey": "k"}


def test_rows_are_read_with_the_facts_about_their_records() -> None:
    source = source_of().with_metadata(("sequence-number", "timestamp", "shard-id"))
    schema = pickle.loads(pickle.dumps(source.source())).schema
    records = [record(b'{"id":1,"name":"a"}', 7), record(b'{"id":2}', 8)]
    found = decode(schema, Shard("orders", "shard-1"), records, [5_000, 6_000])
    moments = [EPOCH + datetime.timedelta(seconds=seconds) for seconds in (5, 6)]
    assert [list(row.values()) for row in found.batch.values.to_pylist()] == [
        [1, "a", "7", moments[0], "shard-1"],
        [2, None, "8", moments[1], "shard-1"],
    ]
    with pytest.raises(InputFormatError, match=r"stream orders, shard-1, sequence number 9: .*it is: x"):
        decode(schema, Shard("orders", "shard-1"), [record(b"x", 9)], [0])


def test_changes_keep_their_kinds() -> None:
    source = source_of(format="debezium-json")
    assert len(source.changelog_mode.kinds) == 4
    message = b'{"before":{"id":1},"after":{"id":2},"op":"u"}'
    found = decode(source.source().schema, Shard("orders", "s"), [record(message, 1)], [0])
    assert found.batch.kinds.tolist() == [1, 2]


def test_options_become_the_properties_of_the_client() -> None:
    options = {
        "aws.credentials.provider": "BASIC",
        "aws.credentials.basic.accesskeyid": "a",
        "aws.credentials.basic.secretkey": "s",
        "aws.endpoint": "http://localhost",
        "source.init.position": "AT_TIMESTAMP",
        "source.init.timestamp": "12.5",
        "source.shard.discovery.interval": "3 s",
        "source.shard.get-records.max-record-count": "10",
    }
    source = source_of(**options).source()
    assert source.start_position.timestamp == 12.5
    assert source.discovery_interval_ms == 3_000
    assert source.fetching.max_records == 10
    assert source.properties["aws.credentials.provider.basic.accesskeyid"] == "a"
    assert source_of(**{"scan.stream.initpos": "TRIM_HORIZON"}).source().start_position.kind == "TRIM_HORIZON"


def write(options: dict[str, str], keys: tuple[str, ...] = ()) -> Service:
    service = Service()
    made = create_sink(table(options, keys), Configuration()).sink()
    sink: Any = pickle.loads(pickle.dumps(made))
    sink.make_client = lambda *_: service
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    writer = sink.create_writer(TestingWriterContext(subtask_index=3))
    writer.write(Batch(pa.RecordBatch.from_pylist(rows, schema=schema_of(types.RowType.of(*COLUMNS)))))
    writer.flush(True)
    writer.close()
    return service


def test_partition_keys_are_the_texts_of_the_columns_of_partitioned_by() -> None:
    first, second = b'{"id":1,"name":"a"}', b'{"id":2,"name":null}'
    assert write({}, ("name", "id")).stored == [("orders", "a|1", first), ("orders", "null|2", second)]
    delimited = write({"sink.partitioner-field-delimiter": "-"}, ("id", "name"))
    assert [key for _, key, _ in delimited.stored] == ["1-a", "2-null"]
    assert [key for _, key, _ in write({"sink.partitioner": "fixed"}).stored] == ["3", "3"]
    assert len({key for _, key, _ in write({}).stored}) == 2, "keys are random by default"


def test_firehose_gets_rows_without_keys() -> None:
    assert [name for name, _, _ in write({"connector": "firehose"}).stored] == ["orders", "orders"]


@pytest.mark.parametrize(
    ("options", "keys", "expected"),
    [
        ({"sink.partitioner": "fixed"}, ("id",), "Cannot set sink.partitioner option"),
        ({"sink.partitioner": "own"}, (), "must be random or fixed"),
        ({"sink.batch.max-size": "0"}, (), "max_batch_size must be an int above 0"),
        ({"aws.credentials.provider": "X"}, (), "must be one of AUTO, BASIC"),
        ({"aws.regoin": "x"}, (), "did you mean 'aws.region'"),
    ],
)
def test_wrong_options_of_sinks_are_reported(options: dict[str, str], keys: tuple[str, ...], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        create_sink(table(options, keys), Configuration())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"source.reader.type": "EFO"}, "must be POLLING, not 'EFO'"),
        ({"source.init.position": "AT_TIMESTAMP"}, "needs the property"),
        ({"connector": "firehose"}, "'firehose' can only be used as a sink"),
    ],
)
def test_wrong_options_of_sources_are_reported(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        source_of(**options)
