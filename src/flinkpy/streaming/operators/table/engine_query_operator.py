"""EngineQueryOperator: computes a part of a batch query with the embedded engine DuckDB.

```
   process_batch -> tables of the engine      the last end_input -> thread of the query -> mails with results
```

The query runs on a thread of its own, so that the task handles its mail meanwhile. Results are emitted by the task
thread; at most `_MAX_WAITING` batches wait for it. A canceled task interrupts the query.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

import pyarrow as pa

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import FlinkError, UnsupportedOperationError
from flinkpy.graph.table_specs import EngineQuerySpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.mailbox.task_mailbox import Mail
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.engine_session import EngineSession
from flinkpy.streaming.sort.memory import column_operator_bytes

#: Batches of the result that wait for the task thread.
_MAX_WAITING = 8


class EngineQueryOperator(StreamOperator):
    """Thread: task thread. The query has a thread of its own."""

    def __init__(
        self,
        spec: EngineQuerySpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._schema = schema_of(spec.output_type.row_type)
        self._num_open_inputs = max(len(spec.tables), 1)
        self._session: EngineSession | None = None
        self._query: _QueryThread | None = None
        self._is_complete = False
        self._watermark: Watermark | None = None

    def open(self) -> None:
        spec = self._spec
        directory = self.context.environment.state.directory / f"op-{self.context.operator_id}" / "engine"
        memory_bytes = column_operator_bytes(self.context) * spec.num_threads
        owner = f"{self.context.environment.task_name}, operator {self.context.name}"
        self._session = session = EngineSession(spec.num_threads, memory_bytes, directory, owner)
        for function in spec.functions:
            session.add_function(function, spec.settings)
        for table in spec.tables:
            session.add_table(table)

    @property
    def session(self) -> EngineSession:
        assert self._session is not None, "open comes first"
        return self._session

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kinds is not None and batch.kinds.any():
            raise UnsupportedOperationError(f"operator {self.context.name}: a batch query takes inserted rows only")
        if self._spec.tables:
            rows = as_columnar(batch, self._spec.input_types[input_index]).values
            self.session.insert(self._spec.tables[input_index].name, rows)

    def process_watermark(self, watermark: Watermark) -> None:
        """Holds the watermark back: all rows are still to come."""
        self._watermark = watermark

    def end_input(self, input_index: int) -> None:
        self._num_open_inputs -= 1
        if not self._num_open_inputs:
            self._query = _QueryThread(self, self._spec, self._schema)
            self._query.start()

    def emit_results(self) -> None:
        """Emits the results that are there."""
        query = self._query
        while query is not None and not self._is_complete:
            found = query.take()
            if found is None:
                return
            if isinstance(found, FlinkError):
                raise found
            if isinstance(found, pa.RecordBatch):
                self.output.emit(Batch(found))
            else:
                self._is_complete = True
                if self._watermark is not None:
                    self.emit_to_all(self._watermark)

    @property
    def is_drained(self) -> bool:
        return self._query is None or self._is_complete

    def finish(self) -> None:
        # Only operators before this one in a chain can have ended its input without the task waiting for it.
        while not self._is_complete:
            mailbox = self.context.mailbox
            while (mail := mailbox.take_urgent()) is not None:
                mail.action()
            self.emit_results()
            if not self._is_complete:
                mailbox.wait(0.1)

    def close(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()
        session, self._session = self._session, None
        if session is not None:
            session.close()


class _End:
    """Follows the last batch."""


class _QueryThread:
    """Runs the query, and hands its results to the task thread."""

    def __init__(self, operator: EngineQueryOperator, spec: EngineQuerySpec, schema: pa.Schema) -> None:
        self._operator = operator
        self._session = operator.session
        self._spec = spec
        self._schema = schema
        self._results: queue.Queue[Any] = queue.Queue(_MAX_WAITING)
        self._is_stopped = threading.Event()
        name = f"{operator.context.environment.task_name} query"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self) -> Any:
        """Returns the next batch, the error of the query, or an _End; None if nothing is there."""
        try:
            return self._results.get_nowait()
        except queue.Empty:
            return None

    def stop(self) -> None:
        """Interrupts the query and waits for its thread. Task thread."""
        self._is_stopped.set()
        while self._thread.is_alive():
            self._session.interrupt()
            # A query that begins after an interrupt is not interrupted by it.
            self._thread.join(0.05)

    def _run(self) -> None:
        try:
            for files in self._spec.files:
                self._session.add_files(files, self._is_stopped.is_set)
                if self._is_stopped.is_set():
                    return
            for batch in self._session.run(self._spec.query, self._schema):
                if not self._put(batch):
                    return
            self._put(_End())
        except USER_ERRORS as error:
            self._put(self._operator.context.function_error(error))

    def _put(self, result: Any) -> bool:
        """Hands over a result. Returns False if the task no longer wants any."""
        while not self._is_stopped.is_set():
            try:
                self._results.put(result, timeout=0.1)
            except queue.Full:
                continue
            mailbox = self._operator.context.mailbox
            mailbox.put(Mail("results of a batch query", self._operator.emit_results))
            return True
        return False
