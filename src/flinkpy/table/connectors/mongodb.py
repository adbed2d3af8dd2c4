"""The connector `mongodb`: a collection is scanned in partitions, looked up by key, or written.

Source: org.apache.flink.connector.mongodb.table.{MongoDynamicTableFactory, MongoDynamicTableSource,
MongoDynamicTableSink, MongoRowDataLookupFunction, MongoKeyExtractor, MongoShardKeysExtractor,
serialization.MongoRowDataSerializationSchema}. Differs: keys of a batch are looked up by one query.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.connectors.mongodb.client import ID, MongoConnectionOptions, load_pymongo
from flinkpy.connectors.mongodb.sink import MongoSink, MongoWriteOptions
from flinkpy.connectors.mongodb.source import MongoQuery, MongoSource
from flinkpy.graph.table_specs import LookupCacheOptions
from flinkpy.records.last_changes import is_deletion
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowField, RowType
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, UPSERT, ChangelogMode
from flinkpy.table.connectors.lookup_options import MAX_RETRIES, lookup_cache_of
from flinkpy.table.connectors.mongodb_documents import KEY_TYPES, RowsOfDocuments, check_columns, values_of
from flinkpy.table.connectors.mongodb_filters import filter_of, key_forms
from flinkpy.table.connectors.mongodb_options import (
    FILTERS,
    OPTIONAL_OPTIONS,
    REQUIRED_OPTIONS,
    RETRY_INTERVAL,
    connection_of,
    reading_of,
    writing_of,
)
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SCAN_PARALLELISM, SINK_PARALLELISM, TableOptions
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import (
    DynamicTableSource,
    FilterPushDown,
    LookupFunction,
    LookupTableSource,
    ScanTableSource,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.connector_api.source import SourceBase
    from flinkpy.records.batch import Batch
    from flinkpy.sql.rex import RexNode


class MongoTableFactory(TableFactory):
    """`'connector' = 'mongodb'`."""

    identifier = "mongodb"
    required_options = REQUIRED_OPTIONS
    optional_options = OPTIONAL_OPTIONS

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        row_type = context.table.resolved_schema.to_physical_row_type()
        check_columns(row_type)
        reading_of(context.options)
        return MongoTableSource(context.options, connection_of(context.options), row_type)

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        schema = context.table.resolved_schema
        row_type = schema.to_physical_row_type()
        check_columns(row_type)
        keys = tuple(schema.primary_key_indexes)
        _check_keys(row_type, keys)
        shard_keys = tuple(row_type.names.index(name) for name in context.table.partition_keys)
        connection, writing = connection_of(context.options), writing_of(context.options)
        return MongoTableSink(context.options, connection, writing, row_type, keys, shard_keys)


def _check_keys(row_type: RowType, keys: tuple[int, ...]) -> None:
    """Checks which columns identify a document. Raises: ValidationError."""
    names = [row_type.names[place] for place in keys]
    if ID in row_type.names and names != [ID]:
        raise ValidationError(
            "Ambiguous keys being used due to the presence of an _id field. Either use the _id column as the key, or "
            "rename the _id column.",
            details={"column": ID},
        )
    illegal = [row_type.fields[place] for place in keys if not isinstance(row_type.fields[place].type, KEY_TYPES)]
    if illegal:
        raise ValidationError(
            "The table has a primary key on columns of illegal types: "
            + ", ".join(f"{field.name} {field.type}" for field in illegal),
            details={"column": illegal[0].name},
        )


class MongoLookupFunction(LookupFunction):
    """Looks up the documents of keys by one query. Thread: task thread.

    Args:
        keys: the positions of the key columns in `row_type`.
        max_retries: how often a failed query is repeated.
        retry_interval_ms: the pause before the first repetition; it grows by this much with each further one.
    """

    def __init__(
        self,
        connection: MongoConnectionOptions,
        row_type: RowType,
        keys: tuple[int, ...],
        max_retries: int,
        retry_interval_ms: int,
    ) -> None:
        self._connection = connection
        self._row_type = row_type
        self._keys = keys
        self._max_retries = max_retries
        self._retry_interval_ms = retry_interval_ms
        self._client: Any = None

    def open(self, context: Any) -> None:
        self._client = self._connection.open_client()
        #: Never set. The function waits on it between two tries.
        self._pause = threading.Event()

    def lookup(self, keys: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
        import numpy as np

        wanted = {key: place for place, key in enumerate(zip(*(column.to_pylist() for column in keys.columns)))}
        found = RowsOfDocuments(self._row_type)(self._documents(keys))
        places = [wanted.get(key, -1) for key in zip(*(found.column(place).to_pylist() for place in self._keys))]
        positions = np.array(places, np.int64)
        # A text may be found by its ObjectId and an ObjectId by its text.
        order = np.argsort(positions, kind="stable")[np.count_nonzero(positions < 0) :]
        return positions[order], found.take(order)

    def _documents(self, keys: pa.RecordBatch) -> list[Any]:
        names = [self._row_type.names[place] for place in self._keys]
        columns = [
            values_of(column, self._row_type.fields[place].type) for column, place in zip(keys.columns, self._keys)
        ]
        # Nothing equals null.
        rows = [values for values in zip(*columns) if None not in values]
        if not rows:
            return []
        if len(names) == 1:
            forms = [form for (value,) in rows for form in _forms(names[0], value)]
            condition: dict[str, Any] = {names[0]: {"$in": forms}}
        else:
            condition = {
                "$or": [{name: {"$in": _forms(name, value)} for name, value in zip(names, row)} for row in rows]
            }
        return self._find(MongoQuery(condition, tuple(self._row_type.names)))

    def _find(self, query: MongoQuery) -> list[Any]:
        errors = load_pymongo().errors
        for attempt in range(self._max_retries + 1):
            try:
                return list(self._connection.collection_of(self._client).find(query.condition, query.projection))
            except errors.PyMongoError as error:
                if attempt == self._max_retries:
                    raise self._connection.error("lookup", error) from error
                self._pause.wait(self._retry_interval_ms * (attempt + 1) / 1000)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _forms(name: str, value: Any) -> list[Any]:
    return key_forms(value) if name == ID and isinstance(value, str) else [value]


@dataclass(frozen=True)
class MongoTableSource(ScanTableSource, LookupTableSource):
    """Reads the fields that are asked for.

    Attributes:
        row_type: the columns that are read.
        conditions: filters of MongoDB; documents for which one is not true are not read.
        limit: the largest number of documents; None: all.
    """

    options: TableOptions
    connection: MongoConnectionOptions
    row_type: RowType
    conditions: tuple[dict[str, Any], ...] = ()
    limit: int | None = None

    @property
    def summary(self) -> str:
        return "MongoDB"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SCAN_PARALLELISM)

    def source(self) -> SourceBase:
        condition = {"$and": list(self.conditions)} if self.conditions else {}
        query = MongoQuery(condition, tuple(self.row_type.names), self.limit)
        rows, kind = RowsOfDocuments(self.row_type), InternalTypeInfo(self.row_type)
        return MongoSource(self.connection, reading_of(self.options), query, kind, rows)

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        retries, interval = self.options.get(MAX_RETRIES), self.options.get(RETRY_INTERVAL)
        return MongoLookupFunction(self.connection, self.row_type, keys, retries, interval)

    @property
    def lookup_cache(self) -> LookupCacheOptions | None:
        return lookup_cache_of(self.options)

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        names = (self.row_type.names[path[0]] for path in paths)
        fields = tuple(RowField(name, each.type) for name, each in zip(names, produced_type.fields))
        return replace(self, row_type=RowType(fields, nullable=False)) if fields else None

    def with_filters(self, filters: tuple[RexNode, ...]) -> FilterPushDown | None:
        if self.options.get(FILTERS) == "never":
            return None
        found = {each: filter_of(each, self.row_type) for each in filters}
        known = tuple(condition for condition in found.values() if condition is not None)
        if not known:
            return None
        accepted = tuple(each for each, condition in found.items() if condition is not None)
        return FilterPushDown(replace(self, conditions=known), accepted, filters)

    def with_limit(self, limit: int) -> ScanTableSource | None:
        return replace(self, limit=limit)


@dataclass(frozen=True)
class WritesOfRows:
    """Turns changes into writes of pymongo: with keys documents are updated and deleted, otherwise inserted.

    Attributes:
        keys: the positions of the columns that are the `_id`: one is its value, several are a document.
        shard_keys: the positions of the columns that choose the shard, and that never change.
    """

    row_type: RowType
    keys: tuple[int, ...]
    shard_keys: tuple[int, ...]

    def __call__(self, batch: Batch) -> list[Any]:
        pymongo = load_pymongo()
        rows: Any = batch.values
        columns = [values_of(column, field.type) for column, field in zip(rows.columns, self.row_type.fields)]
        names = self.row_type.names
        documents = [dict(zip(names, values)) for values in zip(*columns)]
        if not self.keys:
            return [pymongo.InsertOne(document) for document in documents]
        is_deleted = [False] * len(documents) if batch.kinds is None else is_deletion(batch.kinds).tolist()
        fixed = {ID, *(names[place] for place in self.shard_keys)}
        return [
            self._write(pymongo, document, deleted, fixed)
            for document, deleted in zip(documents, is_deleted, strict=True)
        ]

    def _write(self, pymongo: Any, document: dict[str, Any], is_deleted: bool, fixed: set[str]) -> Any:
        names = self.row_type.names
        shard = {names[place]: document[names[place]] for place in self.shard_keys}
        condition = {ID: self._id_of(document), **{name: value for name, value in shard.items() if name != ID}}
        if is_deleted:
            return pymongo.DeleteOne(condition)
        # Fields of the condition are set when the document is inserted, and cannot be changed later.
        changed = {name: value for name, value in document.items() if name not in fixed}
        return pymongo.UpdateOne(condition, {"$set": changed}, upsert=True)

    def _id_of(self, document: dict[str, Any]) -> Any:
        names = self.row_type.names
        if len(self.keys) > 1:
            return {names[place]: document[names[place]] for place in self.keys}
        value = document[names[self.keys[0]]]
        # A text of 24 hexadecimal digits is an ObjectId.
        return key_forms(value)[-1] if isinstance(value, str) else value


@dataclass(frozen=True)
class MongoTableSink(DynamicTableSink):
    """Inserts documents; with a primary key it updates and deletes them, too. Delivers at least once by default."""

    options: TableOptions
    connection: MongoConnectionOptions
    writing: MongoWriteOptions
    row_type: RowType
    keys: tuple[int, ...]
    shard_keys: tuple[int, ...] = ()

    @property
    def summary(self) -> str:
        return "MongoDB"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return UPSERT if self.keys else INSERT_ONLY

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SINK_PARALLELISM)

    def sink(self) -> SinkBase:
        return MongoSink(self.connection, self.writing, WritesOfRows(self.row_type, self.keys, self.shard_keys))

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink:
        return self
