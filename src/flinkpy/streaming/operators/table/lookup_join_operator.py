"""LookupJoinOperator: joins each row with the rows that a LookupFunction finds for its key.

The function is asked once per batch, for its distinct keys, on the task's thread. Keys that find nothing may be asked
again after a delay, during which the task waits.

Source: org.apache.flink.table.runtime.operators.join.lookup.{LookupJoinRunner, RetryableLookupFunctionDelegator}.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from flinkpy.graph.table_specs import LookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.lookup_joiner import Found, LookupJoiner, missing_keys, with_more


class Lookups:
    """Calls a LookupFunction, again for keys that find nothing. Thread: task thread."""

    def __init__(self, spec: LookupJoinSpec, joiner: LookupJoiner) -> None:
        self._spec = spec
        self._joiner = joiner
        #: Nothing sets it: a wait for it is a pause.
        self._pause = threading.Event()

    def found(self, keys: pa.RecordBatch) -> Found:
        """Returns the rows of keys."""
        if not keys.num_rows:
            return self._joiner.nothing
        lookup = self._spec.lookup.lookup
        found: Found = lookup(keys)
        delay_ms, attempts = self._spec.retry or (0, 0)
        for _ in range(attempts):
            missing = missing_keys(found, keys.num_rows)
            if not len(missing):
                break
            self._pause.wait(delay_ms / 1_000)
            found = with_more(found, missing, lookup(keys.take(pa.array(missing))))
        return found


class LookupJoinOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: LookupJoinSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._joiner = LookupJoiner(spec, input_type, context)
        self._lookups = Lookups(spec, self._joiner)
        self._is_open = False

    def open(self) -> None:
        self._is_open = True
        self._joiner.open(StreamingRuntimeContext(self.context, None))

    def close(self) -> None:
        if self._is_open:
            self._joiner.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        request = self._joiner.request(batch)
        for made in self._joiner.joined(request, self._lookups.found(request.asked)):
            self.output.emit(made)
