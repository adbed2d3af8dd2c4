"""Events per second of the operators that keep rows, on Nexmark's events: without source, exchange and sink.

python -m benchmarks.row_state [--events N] [--rows N] [--backend hashmap|rocksdb] [QUERY ...]

Joins have no condition beside the key, which nearly all bids meet. Rates are per second of CPU time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.micro_operators import Environment
from flinkpy._proto import checkpoint_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.connectors.nexmark.generator import EventGenerator, Timeline
from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.schema import FIELDS
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import DeduplicateSpec, JoinSpec, JoinType, RankSpec, SortField
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

QUERIES = ("q4", "q9", "q18", "q18 dedup", "q19", "q20")
_BID, _AUCTION = tuple(FIELDS["bid"]), tuple(FIELDS["auction"])
_DESCENDING = {"ascending": False, "nulls_first": False}


def row_info(kind: str, columns: tuple[str, ...], prefix: str = "") -> InternalTypeInfo:
    return InternalTypeInfo(lt.RowType.of(*((prefix + name, FIELDS[kind][name]) for name in columns)))


class Counting:
    """Counts rows, and passes them on to another operator if there is one."""

    def __init__(self, operator: Any = None) -> None:
        self.rows = 0
        self._operator = operator

    def emit(self, batch: Batch) -> None:
        self.rows += batch.num_rows
        if self._operator is not None:
            self._operator.process_batch(batch)
            self._operator.after_batch(batch.num_rows)

    def emit_element(self, element: Any) -> None:
        return


class Query:
    """The operators of a query.

    Attributes:
        columns: of auctions and of bids, as far as the query reads them.
        head: the operator that gets the events.
        output: counts the results.
    """

    def __init__(self, name: str, backend: str, directory: Path) -> None:
        self._configuration = Configuration.from_dict({"state.backend.type": backend})
        self._directory = directory
        self.output = Counting()
        self.operators: list[Any] = []
        self.columns: tuple[tuple[str, ...], tuple[str, ...]] = ((), _BID)
        bid = row_info("bid", _BID)
        if name in ("q4", "q9", "q20"):
            self.columns = {
                "q4": (("id", "dateTime", "expires", "category"), ("auction", "price", "dateTime")),
                "q9": (_AUCTION, ("auction", "bidder", "price", "dateTime", "extra")),
                "q20": (_AUCTION, _BID),
            }[name]
            self.head = self._join(name)
        elif name == "q18":
            order = (SortField(5, **_DESCENDING),)
            selector = FieldKeySelector(("bidder", "auction"))
            self.head = self._create(
                RankSpec(selector, "ROW_NUMBER", (1, 0), order, 1, 1, input_types=(bid,)), self.output
            )
        elif name == "q18 dedup":
            selector = FieldKeySelector(("bidder", "auction"))
            spec = DeduplicateSpec(selector, (1, 0), True, 5, generate_update_before=False, input_types=(bid,))
            self.head = self._create(spec, self.output)
        else:
            order = (SortField(2, **_DESCENDING),)
            selector = FieldKeySelector(("auction",))
            rank = RankSpec(selector, "ROW_NUMBER", (0,), order, 1, 10, output_rank_number=True, input_types=(bid,))
            self.head = self._create(rank, self.output)
        self.filters_auctions = name == "q20"

    def _join(self, name: str) -> Any:
        left = row_info("auction", self.columns[0], "a_")
        right = row_info("bid", self.columns[1])
        selectors = (FieldKeySelector(("a_id",)), FieldKeySelector(("auction",)))
        spec = JoinSpec(selectors, JoinType.INNER, (0,), (0,), (True,), input_types=(left, right))
        if name != "q9":
            return self._create(spec, self.output)
        joined = InternalTypeInfo(lt.RowType((*left.row_type.fields, *right.row_type.fields)))
        order = (SortField(12, **_DESCENDING), SortField(13))
        selector = FieldKeySelector(("a_id",))
        best = self._create(RankSpec(selector, "ROW_NUMBER", (0,), order, 1, 1, input_types=(joined,)), self.output)
        return self._create(spec, Counting(best))

    def _create(self, spec: Any, output: Any) -> Any:
        environment: Any = Environment([spec])
        environment.configuration = self._configuration
        environment.state.directory = self._directory / str(len(self.operators))
        context = OperatorContext(
            "0", "bench", environment, TaskMailbox(), ProcessingTimeService(environment.clock), OperatorMetricGroup()
        )
        operator: Any = create_operator(spec, context, output, {})
        operator.restore(lambda operator_id: None)
        operator.open()
        self.operators.append(operator)
        return operator


def events(query: Query, num_events: int, batch_rows: int) -> Iterator[list[tuple[int, Batch]]]:
    """Yields, for each batch of events, (input, rows)."""
    generator = EventGenerator(NexmarkOptions(), Timeline(1_000, 1, 0), (("event_type",), ("auction",), ("bid",)))
    sides = [row_info("auction", query.columns[0], "a_"), row_info("bid", query.columns[1])]
    for first in range(0, num_events, batch_rows):
        batch, _ = generator.batch(first, min(batch_rows, num_events - first))
        parts = []
        for side, columns in enumerate(query.columns):
            if not columns:
                continue
            rows = batch.column(side + 1).filter(pc.equal(batch.column(0), side + 1))
            if side == 0 and query.filters_auctions:
                rows = rows.filter(pc.equal(rows.field("category"), 10))
            values = [rows.field(column) for column in columns]
            parts.append((side, Batch(pa.RecordBatch.from_arrays(values, schema=schema_of(sides[side].row_type)))))
        yield [(side if len(parts) > 1 else 0, part) for side, part in parts if part.num_rows]


def measure(name: str, backend: str, num_events: int, batch_rows: int) -> str:
    """Returns a line with the rate after the first two batches, which load the compiled loops."""
    with tempfile.TemporaryDirectory() as directory:
        query = Query(name, backend, Path(directory))
        times = []
        for parts in events(query, num_events, batch_rows):
            start = time.process_time()
            for side, batch in parts:
                query.head.process_batch(batch, side)
                query.head.after_batch(batch.num_rows)
            times.append(time.process_time() - start)
        measured = np.array(times[2:] or times)
        rate = batch_rows * len(measured) / measured.sum() / 1e6
        start = time.perf_counter()
        for operator in query.operators:
            operator.backend.snapshot(1, checkpoint_pb2.CheckpointOptions()).release()
        frozen_ms = (time.perf_counter() - start) * 1_000
        tables = [table for operator in query.operators for table in operator.backend._row_tables.values()]
        rows = "+".join(str(table.size) for table in tables)
        columns = "+".join(str(table.size_bytes >> 20) for table in tables)
        for operator in query.operators:
            operator.close()
    worst_ms = measured.max() * 1_000
    return f"{name:<10}{rate:>8.2f}{worst_ms:>10.0f}{frozen_ms:>10.0f}{query.output.rows:>11}   {rows}: {columns} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_state", description=__doc__)
    parser.add_argument("queries", nargs="*", default=QUERIES, metavar="QUERY", help=", ".join(QUERIES))
    parser.add_argument("--events", type=int, default=2_000_000, help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=65_536, help="events of a batch (default: %(default)s)")
    parser.add_argument("--backend", default="hashmap", choices=("hashmap", "rocksdb"))
    arguments = parser.parse_args()
    print(f"{'query':<10}{'M ev/s':>8}{'worst ms':>10}{'freeze ms':>10}{'results':>11}   rows in state: their columns")
    for name in arguments.queries:
        print(measure(name, arguments.backend, arguments.events, arguments.rows), flush=True)


if __name__ == "__main__":
    main()
