"""Tables of DynamoDB: changes of an item stay in order, refused items are sent again, and wrong tables are refused."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("botocore")

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import DynamoDbError, InputFormatError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema, UniqueConstraint
from flinkpy.table.connectors.registry import create_sink, create_source
from flinkpy.table.schema import Schema
from tests.unit.connectors.connector_fakes import TestingWriterContext

COLUMNS = (("id", types.IntType(nullable=False)), ("v", types.VarCharType()))
PUT, DELETE = RowKind.INSERT, RowKind.DELETE


class Service:
    """Takes items as DynamoDB does: a request must not have two changes of one key.

    Args:
        busy: how many requests it answers with all but the first item unprocessed.
    """

    def __init__(self, busy: int = 0) -> None:
        self.items: dict[str, Any] = {}
        self.sizes: list[int] = []
        self.busy = busy
        self._lock = threading.Lock()

    def batch_write_item(self, RequestItems: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            ((table, requests),) = RequestItems.items()
            self.sizes.append(len(requests))
            keys = [self._key(request) for request in requests]
            assert len(keys) == len(set(keys)), "Provided list of item keys contains duplicates"
            taken = requests
            if self.busy:
                self.busy -= 1
                taken = requests[:1]
            for request in taken:
                item = request.get("PutRequest", {}).get("Item")
                if item is None:
                    self.items.pop(self._key(request), None)
                else:
                    self.items[self._key(request)] = item["v"]
            rest = requests[len(taken) :]
            return {"UnprocessedItems": {table: rest} if rest else {}}

    def _key(self, request: dict[str, Any]) -> str:
        item = request["PutRequest"]["Item"] if "PutRequest" in request else request["DeleteRequest"]["Key"]
        return str(item["id"]["N"])


def sink_of(keys: tuple[str, ...] = ("id",), columns: Any = COLUMNS, **options: str) -> Any:
    given = {"connector": "dynamodb", "table-name": "t", "aws.region": "eu-west-1", **options}
    key = UniqueConstraint("pk", keys) if keys else None
    schema = ResolvedSchema(ResolvedSchema.physical(*columns).columns, (), key)
    table = ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), given), schema)
    return create_sink(table, Configuration())


def batch_of(changes: list[tuple[int, str | None, RowKind]]) -> Batch:
    schema = schema_of(types.RowType.of(*COLUMNS))
    ids, values, kinds = zip(*changes)
    rows = pa.RecordBatch.from_arrays([pa.array(ids, pa.int32()), pa.array(values, pa.string())], schema=schema)
    return Batch(rows, None, np.array([kind.value for kind in kinds], np.int8))


def write(service: Service, changes: list[tuple[int, str | None, RowKind]], **options: str) -> None:
    sink = pickle.loads(pickle.dumps(sink_of(**options).sink()))
    sink.make_client = lambda *_: service
    writer = sink.create_writer(TestingWriterContext())
    try:
        writer.write(batch_of(changes))
        writer.flush(True)
    finally:
        writer.close()


@pytest.mark.parametrize("busy", [0, 3])
def test_last_change_of_each_item_stays(busy: int) -> None:
    service, changes, expected = Service(busy), [], {}
    for number in range(300):
        key, kind = number * 7 % 11, DELETE if number % 5 == 0 else PUT
        changes.append((key, f"v{number}", kind))
        expected.pop(str(key), None)
        if kind is PUT:
            expected[str(key)] = {"S": f"v{number}"}
    write(service, changes, **{"sink.batch.max-size": "3"})
    assert service.items == expected
    assert max(service.sizes) <= 3


def test_nulls_are_kept_or_left_out() -> None:
    requests = sink_of().sink().requests_of(batch_of([(1, None, PUT), (2, "x", DELETE)]))
    assert [(each.item, each.is_deletion) for each in requests] == [
        ({"id": {"N": "1"}, "v": {"NULL": True}}, False),
        ({"id": {"N": "2"}}, True),
    ]
    kept = sink_of(**{"sink.ignore-nulls": "true"}).sink().requests_of(batch_of([(1, None, PUT)]))
    assert kept[0].item == {"id": {"N": "1"}}


def test_deletion_needs_a_primary_key() -> None:
    sink = sink_of(keys=()).sink()
    assert [each.key for each in sink.requests_of(batch_of([(1, "a", PUT)]))] == [None]
    with pytest.raises(InputFormatError, match="PRIMARY KEY on Table must be set for DynamoDB DELETE operation"):
        sink.requests_of(batch_of([(1, "a", DELETE)]))


def test_busy_service_fails_the_job_only_if_that_is_asked_for() -> None:
    with pytest.raises(DynamoDbError, match="DynamoDB table 't': 1 of 2 records were refused: ThrottlingException"):
        write(Service(1), [(1, "a", PUT), (2, "b", PUT)], **{"sink.fail-on-error": "true"})


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (COLUMNS, {"sink.batch.max-size": "26"}, "must not be above 25"),
        (COLUMNS, {"table": "t"}, "table-name"),
        ((("id", types.IntType()), ("m", types.MultisetType(types.IntType()))), {}, "column 'm' cannot be MULTISET"),
    ],
)
def test_wrong_tables_are_refused(columns: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        sink_of(keys=(), columns=columns, **options)


def test_table_cannot_be_read() -> None:
    given = {"connector": "dynamodb", "table-name": "t", "aws.region": "eu-west-1"}
    table = ContextResolvedTable(
        ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), given), ResolvedSchema.physical(*COLUMNS)
    )
    with pytest.raises(ValidationError, match="'dynamodb' can only be used as a sink"):
        create_source(table, Configuration())
