"""Reads and writes tables as tasks do: with readers, writers, and committables of a checkpoint."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from connector_fakes import TestingWriterContext, read_splits

from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connectors.tables.table_sink import TableSink
from flinkpy.connectors.tables.table_source import TableSource
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import type_info_of_schema


def rows_of_source(source: TableSource, max_batch_rows: int = 1000) -> list[dict[str, Any]]:
    splits = source.snapshot.list_splits(source._predicate)
    return [row for batch in read_splits(source, splits, max_batch_rows) for row in batch.values.to_pylist()]


def written(sink: TableSink, *tables: pa.Table) -> list[Any]:
    """Returns the committables of a writer per table, as a checkpoint would keep them."""
    made = []
    for subtask_index, table in enumerate(tables):
        context = TestingWriterContext(subtask_index=subtask_index, parallelism=len(tables))
        context.input_type = type_info_of_schema(table.schema)
        writer = sink.create_writer(context)
        for columns in table.to_batches(max_chunksize=3):
            writer.write(Batch(columns))
        writer.flush(True)
        made += writer.prepare_commit()
        writer.close()
    serializer = sink.committable_serializer
    return [read_versioned(serializer, write_versioned(serializer, each), "a committable") for each in made]


class Request:
    """A CommitRequest that records what the committer signals."""

    def __init__(self, committable: Any) -> None:
        self.committable = committable
        self.signals: list[str] = []

    def get_committable(self) -> Any:
        return self.committable

    def get_number_of_retries(self) -> int:
        return 0

    def signal_already_committed(self) -> None:
        self.signals.append("already committed")


def commit(sink: TableSink, committables: list[Any]) -> list[list[str]]:
    """Commits with a new committer. Returns the signals per committable."""
    requests = [Request(each) for each in committables]
    committer = sink.create_committer()
    committer.commit(requests)  # type: ignore[arg-type]
    committer.close()
    return [request.signals for request in requests]
