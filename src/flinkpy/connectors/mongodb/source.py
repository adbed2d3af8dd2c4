"""MongoSource: reads the documents of a collection as a bounded source, in parallel by ranges of keys.

Source: org.apache.flink.connector.mongodb.source.{MongoSource, reader.split.MongoScanSourceSplitReader}. Differs: there
is no change stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.mongodb.client import MongoConnectionOptions, load_pymongo
from flinkpy.connectors.mongodb.splitters import MongoReadOptions, MongoScanSourceSplit, split_collection
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.records.batch import Batch


@dataclass(frozen=True)
class MongoQuery:
    """The documents and fields to read.

    Attributes:
        condition: a filter of MongoDB; {} for all documents.
        fields: the fields to read.
        limit: the largest number of documents; None for all. The collection is then one split.
    """

    condition: dict[str, Any]
    fields: tuple[str, ...]
    limit: int | None = None

    @property
    def projection(self) -> dict[str, int]:
        # MongoDB sends `_id` unless it is told not to.
        return {"_id": 0, **dict.fromkeys(self.fields, 1)}


class MongoSource(SourceBase):
    """Reads documents in the order of their keys within a split.

    A restored job skips as many documents of a split as it has emitted. So with checkpoints documents must not be added
    or removed meanwhile.

    Args:
        produced_type: the TypeInformation of the rows.
        rows_of: returns documents as `RecordBatch` of that type. Pickled into the job.
    """

    boundedness = Boundedness.BOUNDED

    def __init__(
        self,
        connection: MongoConnectionOptions,
        options: MongoReadOptions,
        query: MongoQuery,
        produced_type: Any,
        rows_of: Callable[[list[Any]], Any],
    ) -> None:
        self._connection = connection
        self._options = options if query.limit is None else replace(options, partition_strategy="single")
        self._query = query
        self._produced_type = produced_type
        self._rows_of = rows_of

    @property
    def produced_type(self) -> Any:
        return self._produced_type

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self.restore_enumerator(context, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.list_splits, blocking=True, state=state)

    def list_splits(self) -> list[MongoScanSourceSplit]:
        """Asks the server for the ranges of keys. Raises: MongoError."""
        with self._connection.open_client() as client:
            return split_collection(client, self._connection, self._options)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _MongoReader(context, self._connection, self._options, self._query, self._rows_of)

    def __repr__(self) -> str:
        return f"MongoSource({self._connection.namespace})"


class _MongoReader(SequentialSplitReader):
    def __init__(
        self,
        context: SourceReaderContext,
        connection: MongoConnectionOptions,
        options: MongoReadOptions,
        query: MongoQuery,
        rows_of: Callable[[list[Any]], Any],
    ) -> None:
        super().__init__(context)
        self._connection = connection
        self._options = options
        self._query = query
        self._rows_of = rows_of
        self._client: Any = None

    def open_split(self, split: MongoScanSourceSplit) -> OpenSplit:
        if self._client is None:
            self._client = self._connection.open_client()
        return _OpenRange(split, self._cursor(split), self._connection, self._options.fetch_size, self._rows_of)

    def _cursor(self, split: MongoScanSourceSplit) -> Any:
        query = self._query
        cursor = self._connection.collection_of(self._client).find(
            query.condition,
            query.projection,
            no_cursor_timeout=self._options.no_cursor_timeout,
            batch_size=self._options.fetch_size,
        )
        if split.lower is not None:
            cursor = cursor.min(list(split.lower))
        if split.upper is not None:
            cursor = cursor.max(list(split.upper))
        # The order of the index, so that a restored job skips the documents that it has emitted.
        is_range = split.lower is not None or split.upper is not None
        cursor = cursor.hint(list(split.hint)) if is_range else cursor.sort(list(split.hint))
        if query.limit is not None:
            # A limit of 0 is none in MongoDB.
            cursor = cursor.limit(max(query.limit, 1))
        return cursor.skip(split.rows_done)

    def close(self) -> None:
        super().close()
        client, self._client = self._client, None
        if client is not None:
            client.close()


class _OpenRange:
    """A range of keys whose documents are being fetched."""

    def __init__(
        self,
        split: MongoScanSourceSplit,
        cursor: Any,
        connection: MongoConnectionOptions,
        fetch_size: int,
        rows_of: Callable[[list[Any]], Any],
    ) -> None:
        self._split = split
        self._cursor = cursor
        self._connection = connection
        self._fetch_size = fetch_size
        self._rows_of = rows_of
        self._num_read = 0

    def read_batch(self) -> Batch | None:
        try:
            documents = list(islice(self._cursor, self._fetch_size))
        except load_pymongo().errors.PyMongoError as error:
            raise self._connection.error(f"reading {self._split.split_id}", error) from error
        self._num_read += len(documents)
        return Batch(self._rows_of(documents)) if documents else None

    def rest(self, rows_back: int) -> MongoScanSourceSplit:
        return replace(self._split, rows_done=self._split.rows_done + self._num_read - rows_back)

    def close(self) -> None:
        self._cursor.close()
