"""Tables in Elasticsearch and OpenSearch: documents are added, or updated and deleted by primary key."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ElasticsearchError, UnsupportedOperationError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema, UniqueConstraint
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, UPSERT, ChangelogMode
from flinkpy.table.connectors.registry import create_sink
from flinkpy.table.schema import Schema
from tests.unit.connectors.bulk_server import BulkServer, running_bulk_server
from tests.unit.connectors.connector_fakes import TestingWriterContext

COLUMNS = (
    ("id", types.BigIntType()),
    ("name", types.VarCharType()),
    ("ts", types.TimestampType(3)),
    ("price", types.DecimalType(6, 2)),
)
AT = datetime.datetime(2024, 1, 2, 3, 4)
INS, UB, UA, DEL = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE


@pytest.fixture
def cluster() -> Iterator[BulkServer]:
    with running_bulk_server() as server:
        yield server


def sink_of(hosts: str, keys: tuple[str, ...] = ("id",), columns: Any = COLUMNS, **options: str) -> Any:
    given = {"connector": "elasticsearch-7", "hosts": hosts, "index": "users", **options}
    key = UniqueConstraint("pk", keys) if keys else None
    schema = ResolvedSchema(ResolvedSchema.physical(*columns).columns, (), key)
    table = ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), given), schema)
    configuration = Configuration()
    configuration.set_string("table.local-time-zone", "Asia/Tokyo")
    return create_sink(table, configuration)


def write(sink: Any, rows: list[dict[str, Any]], kinds: list[RowKind] | None = None, columns: Any = COLUMNS) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema_of(types.RowType.of(*columns)))
    changes = None if kinds is None else np.array([kind.value for kind in kinds], np.int8)
    writer = pickle.loads(pickle.dumps(sink.sink())).create_writer(TestingWriterContext())
    try:
        writer.write(Batch(batch, None, changes))
        writer.flush(True)
    finally:
        writer.close()


def row(number: int, name: str | None = "a") -> dict[str, Any]:
    return {"id": number, "name": name, "ts": AT, "price": Decimal("2.50")}


def test_rows_are_updated_and_deleted_by_primary_key(cluster: BulkServer) -> None:
    changes = [row(1), row(2), row(1), row(1, "b"), row(2), row(4)]
    sink = sink_of(f"http://{cluster.address}")
    assert sink.changelog_mode(ChangelogMode.all()) == UPSERT
    # A condition may keep the row after an update from following, as that of 4.
    write(sink, changes, [INS, INS, UB, UA, DEL, UB])
    stored = {"id": 1, "name": "b", "ts": "2024-01-02 03:04:00", "price": 2.5}
    assert cluster.documents == {("users", "1"): stored}
    assert [count for _, _, count in cluster.requests] == [6]


def test_without_a_key_rows_are_only_added(cluster: BulkServer) -> None:
    sink = sink_of(f"http://{cluster.address}", ())
    assert sink.changelog_mode(ChangelogMode.all()) == INSERT_ONLY
    write(sink, [row(1), row(1)])
    assert len(cluster.documents) == 2


KEYS = (
    ("i", types.IntType()),
    ("b", types.BooleanType()),
    ("ts", types.TimestampType(3)),
    ("ltz", types.LocalZonedTimestampType(6)),
    ("d", types.DateType()),
    ("t", types.TimeType(0)),
    ("p", types.DecimalType(6, 2)),
)


def test_the_id_of_a_document_has_the_texts_of_its_key(cluster: BulkServer) -> None:
    moment = AT.replace(tzinfo=datetime.UTC, microsecond=120)
    values = (7, True, AT, moment, AT.date(), datetime.time(1, 2), Decimal("2.50"))
    options = {"document-id.key-delimiter": "$", "index": "x", "format": "json"}
    names = tuple(name for name, _ in KEYS)
    write(sink_of(f"http://{cluster.address}", names, KEYS, **options), [dict(zip(names, values))], None, KEYS)
    expected = "7$true$2024-01-02T03:04$2024-01-02T03:04:00.000120Z$2024-01-02$01:02$2.50"
    assert list(cluster.documents) == [("x", expected)]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("logs-{name}", {"logs-a", "logs-null"}),
        ("logs-{ts|yyyy-MM-dd}-x", {"logs-2024-01-02-x"}),
        ("{id}", {"1", "2"}),
    ],
)
def test_a_column_is_part_of_the_index(cluster: BulkServer, index: str, expected: set[str]) -> None:
    write(sink_of(f"http://{cluster.address}", index=index), [row(1), row(2, None)])
    assert {name for name, _ in cluster.documents} == expected


def test_moments_in_the_index_are_local_times_of_the_session(cluster: BulkServer) -> None:
    columns = (("at", types.LocalZonedTimestampType(3)),)
    moment = datetime.datetime(2024, 1, 1, 20, tzinfo=datetime.UTC)
    sink = sink_of(f"http://{cluster.address}", (), columns, index="{at|yyyyMMdd}")
    write(sink, [{"at": moment}], None, columns)
    assert [name for name, _ in cluster.documents] == ["20240102"]


def test_the_present_time_in_the_index_is_for_inserted_rows_only(cluster: BulkServer) -> None:
    sink = sink_of(f"http://{cluster.address}", index="l-{now()|yyyy}")
    write(sink, [row(1)])
    ((name, _),) = cluster.documents
    assert name == "l-1970", "the context's clock"
    with pytest.raises(ValidationError, match="only works on append only stream"):
        sink.changelog_mode(ChangelogMode.all())


def test_elasticsearch_6_has_document_types_and_opensearch_credentials(cluster: BulkServer) -> None:
    address = f"http://{cluster.address}"
    write(sink_of(address, connector="elasticsearch-6", **{"document-type": "person"}), [row(1)])
    login = {"username": "u", "password": "p", "connection.path-prefix": "/v1", "allow-insecure": "true"}
    write(sink_of(address, connector="opensearch", **login), [row(1)])
    assert cluster.types == {"person", None}
    assert cluster.requests[1][:2] == ("/v1/_bulk", "Basic dTpw")


RETRIES = {
    "sink.bulk-flush.backoff.strategy": "CONSTANT",
    "sink.bulk-flush.backoff.max-retries": "2",
    "sink.bulk-flush.backoff.delay": "1 ms",
}


def test_busy_clusters_are_asked_again_and_only_for_the_refused_documents(cluster: BulkServer) -> None:
    cluster.answers = [503]
    cluster.refusals = {"2": [429]}
    write(
        sink_of(
            f"http://127.0.0.1:1;http://{cluster.address}", **RETRIES | {"sink.bulk-flush.backoff.max-retries": "3"}
        ),
        [row(1), row(2)],
    )
    assert {document for _, document in cluster.documents} == {"1", "2"}
    assert [count for _, _, count in cluster.requests] == [2, 2, 1]


@pytest.mark.parametrize(
    ("handler", "refusals", "stored"),
    [
        ("ignore", {"1": [400]}, {"2"}),
        ("ignore", {"1": [429] * 9}, {"2"}),
        ("retry-rejected", {"1": [429] * 2}, {"1", "2"}),
    ],
)
def test_refused_documents_are_dropped_or_repeated_as_the_failure_handler_says(
    cluster: BulkServer, handler: str, refusals: dict[str, list[int]], stored: set[str]
) -> None:
    cluster.refusals = refusals
    write(sink_of(f"http://{cluster.address}", **{"failure-handler": handler}), [row(1), row(2)])
    assert {document for _, document in cluster.documents} == stored


@pytest.mark.parametrize("handler", ["fail", "retry-rejected"])
def test_a_document_that_does_not_fit_is_named(cluster: BulkServer, handler: str) -> None:
    cluster.refusals = {"2": [400]}
    with pytest.raises(ElasticsearchError, match="index 'users', document '2': 400, refused: because 400"):
        write(sink_of(f"http://{cluster.address}", **{"failure-handler": handler}), [row(1), row(2)])


def test_requests_have_the_asked_number_of_actions_and_are_sent_after_the_interval(cluster: BulkServer) -> None:
    limits = {"sink.bulk-flush.max-actions": "2", "sink.bulk-flush.interval": "5 s", "sink.bulk-flush.max-size": "0"}
    sink = sink_of(f"http://{cluster.address}", **limits)
    assert (sink.bulk.max_actions, sink.bulk.max_size_mb, sink.bulk.interval_ms) == (2, -1, 5_000)
    write(sink, [row(number) for number in range(5)])
    assert [count for _, _, count in cluster.requests] == [2, 2, 1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hosts": "ftp://x"}, "Could not parse host of option 'hosts'"),
        ({"index": "{x}"}, "Unknown field 'x' in index pattern '{x}'.*id, name, ts, price"),
        ({"index": "{id|yyyy}"}, "Unsupported type 'BIGINT' found in Elasticsearch dynamic index field"),
        ({"index": "{id}-{name}"}, "Chaining dynamic index pattern"),
        ({"index": "{ts|bb}"}, "pattern letter"),
        ({"sink.bulk-flush.max-size": "1500 kb"}, "must be in MB granularity. Got: 1500 kb"),
        ({"username": "u"}, "'username' and 'password' must be set at the same time"),
        ({"connector": "elasticsearch-6"}, "Missing required options are:\n\ndocument-type"),
        ({"document-type": "x"}, "Unsupported options:\n\ndocument-type"),
        ({"format": "orc"}, "'orc' cannot write messages"),
    ],
)
def test_wrong_options_are_reported(options: dict[str, str], expected: str) -> None:
    with pytest.raises((ValidationError, UnsupportedOperationError), match=expected):
        sink_of(**{"hosts": "http://h", **options})


def test_a_key_needs_a_text() -> None:
    with pytest.raises(ValidationError, match="primary key on columns of illegal types: raw BYTES"):
        sink_of("http://h", ("raw",), (("raw", types.VarBinaryType()),))
