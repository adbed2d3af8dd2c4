"""AsyncLookupJoinOperator: joins each row with the rows that an AsyncLookupFunction finds for its key.

The keys of a piece of a batch are asked together.

Source: org.apache.flink.table.runtime.operators.join.lookup.AsyncLookupJoinRunner.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.error_text import safe_repr
from flinkpy.graph.table_specs import AsyncLookupOptions, LookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.async_io.async_pieces_operator import AsyncPiecesOperator
from flinkpy.streaming.async_io.time_limit import completed_within
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.lookup_joiner import (
    Found,
    LookupJoiner,
    LookupRequest,
    missing_keys,
    with_more,
)

#: An error names the first keys of a call.
_NAMED_KEYS = 3


class AsyncLookupJoinOperator(AsyncPiecesOperator):
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
        options = spec.asynchronous or AsyncLookupOptions()
        calls = _Calls(spec, self._joiner, options)
        super().__init__(calls, options.capacity, options.ordered, input_type, context, output, side_outputs)

    def piece_of(self, batch: Batch) -> LookupRequest:
        return self._joiner.request(batch)

    def batch_of(self, piece: LookupRequest) -> Batch:
        return piece.batch

    def joined(self, piece: LookupRequest, result: Found) -> list[Batch]:
        return list(self._joiner.joined(piece, result))


class _Calls:
    """The AsyncFunction that asks for the keys of a request."""

    def __init__(self, spec: LookupJoinSpec, joiner: LookupJoiner, options: AsyncLookupOptions) -> None:
        self._spec = spec
        self._capacity = options.capacity
        self._timeout_s = options.timeout_ms / 1_000
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
        if self._free is None:
            self._free = asyncio.Semaphore(self._capacity)
        size = self._spec.lookup.max_keys_per_call
        parts = [keys.slice(start, size) for start in range(0, keys.num_rows, size)]
        found = await asyncio.gather(*(self._found(part, self._free) for part in parts))
        places = [each[0] + size * number for number, each in enumerate(found)]
        schema = found[0][1].schema
        rows = pa.concat_batches([each[1].cast(schema) for each in found])
        return [(np.concatenate(places), rows)]

    async def _found(self, keys: pa.RecordBatch, free: asyncio.Semaphore) -> Found:
        """Looks up the keys of one call. The call occupies its capacity until its last retry has ended."""
        async with free:
            try:
                return await completed_within(self._timeout_s, self._attempts(keys))
            except Exception as error:
                asked = safe_repr(keys.slice(0, _NAMED_KEYS).to_pylist())
                error.add_note(
                    f"Error happens inside the class '{type(self._spec.lookup)}' during the lookup of {asked} in the "
                    f"table {self._spec.table_name}"
                )
                raise

    async def _attempts(self, keys: pa.RecordBatch) -> Found:
        lookup = self._spec.lookup.lookup
        found: Found = await lookup(keys)
        delay_ms, attempts = self._spec.retry or (0, 0)
        for _ in range(attempts):
            missing = missing_keys(found, keys.num_rows)
            if not len(missing):
                break
            await asyncio.sleep(delay_ms / 1_000)
            found = with_more(found, missing, await lookup(keys.take(pa.array(missing))))
        return found
