"""AsyncLookupJoinOperator: joins each row with the rows that an AsyncLookupFunction finds for its key.

A batch is cut into pieces. Each piece is a record of the AsyncWaitOperator: its keys are asked together, and it leaves
the operator when all of them are answered, in the order of the pieces if the join is ordered. A checkpoint contains the
pieces that are not answered; their keys are asked again after a restore.

Source: org.apache.flink.table.runtime.operators.join.lookup.AsyncLookupJoinRunner.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.functions.async_functions import NO_RETRY_STRATEGY
from flinkpy.graph.operator_specs import AsyncWaitSpec
from flinkpy.graph.table_specs import LookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.async_io.async_wait_operator import AsyncWaitOperator
from flinkpy.streaming.async_io.element_queue import Chunk, Part
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.bundle import concatenated
from flinkpy.streaming.operators.table.lookup_joiner import (
    Found,
    LookupJoiner,
    LookupRequest,
    missing_keys,
    with_more,
)

#: The rows of a piece. A piece waits for its slowest key, and costs some 100 us besides its calls.
_PIECE_ROWS = 256
#: The number of pieces that may be in the operator before the task stops reading.
_MAX_PIECES = 64


class AsyncLookupJoinOperator(AsyncWaitOperator):
    """Thread: task thread. The connector's function runs on the loop thread."""

    def __init__(
        self,
        spec: LookupJoinSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        self._joiner = LookupJoiner(spec, input_type, context)
        calls = _Calls(spec, self._joiner)
        waiting = AsyncWaitSpec(calls, spec.timeout_ms, _MAX_PIECES, NO_RETRY_STRATEGY, spec.ordered)
        super().__init__(waiting, input_type, context, output, side_outputs)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._put(Chunk([batch.slice(start, _PIECE_ROWS) for start in range(0, batch.num_rows, _PIECE_ROWS)]))

    def _put(self, chunk: Chunk) -> None:
        chunk.rows = [self._joiner.request(batch) for batch in chunk.rows]
        super()._put(chunk)

    @property
    def is_writable(self) -> bool:
        return self._unfinished < _MAX_PIECES

    @property
    def max_batch_rows(self) -> int:
        return _PIECE_ROWS * _MAX_PIECES

    def _emit(self, parts: list[Part]) -> None:
        made: list[Batch] = []
        for part in parts:
            requests = [
                part.chunk.rows[position]
                for begin, end in (*part.runs, (part.begin, part.end))
                for position in range(begin, end)
            ]
            for request, found in zip(requests, part.results, strict=True):
                made += self._joiner.joined(request, found)
            self._unfinished -= part.finish()
        if made:
            self.output.emit(concatenated(made))

    def _unfinished_records(self) -> list[tuple[list[Any], list[int] | None]]:
        return [([request.batch for request in rows], None) for rows, _ in super()._unfinished_records()]


class _Calls:
    """The AsyncFunction that asks for the keys of a request."""

    def __init__(self, spec: LookupJoinSpec, joiner: LookupJoiner) -> None:
        self._spec = spec
        self._joiner = joiner
        self._free: asyncio.Semaphore | None = None

    def open(self, context: Any) -> None:
        self._joiner.open(context)

    def close(self) -> None:
        self._joiner.close()

    def timeout(self, request: LookupRequest) -> list[Found]:
        raise TimeoutError("Async function call has timed out.")

    async def async_invoke(self, request: LookupRequest) -> list[Found]:
        """Returns one element: the rows of the keys."""
        keys = request.asked
        if not keys.num_rows:
            return [self._joiner.nothing]
        size = self._spec.lookup.max_keys_per_call
        parts = [keys.slice(start, size) for start in range(0, keys.num_rows, size)]
        found = await asyncio.gather(*(self._found(part) for part in parts))
        places = [each[0] + size * number for number, each in enumerate(found)]
        schema = found[0][1].schema
        rows = pa.concat_batches([each[1].cast(schema) for each in found])
        return [(np.concatenate(places), rows)]

    async def _found(self, keys: pa.RecordBatch) -> Found:
        found = await self._lookup(keys)
        delay_ms, attempts = self._spec.retry or (0, 0)
        for _ in range(attempts):
            missing = missing_keys(found, keys.num_rows)
            if not len(missing):
                break
            await asyncio.sleep(delay_ms / 1_000)
            found = with_more(found, missing, await self._lookup(keys.take(pa.array(missing))))
        return found

    async def _lookup(self, keys: pa.RecordBatch) -> Found:
        if self._free is None:
            self._free = asyncio.Semaphore(self._spec.capacity)
        async with self._free:
            found: Found = await self._spec.lookup.lookup(keys)
            return found
