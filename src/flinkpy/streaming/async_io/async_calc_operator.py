"""AsyncCalcOperator: appends the results of asynchronous scalar functions to rows. Rows keep their order and kinds.

Source: org.apache.flink.table.planner.codegen.AsyncCodeGenerator,
org.apache.flink.table.runtime.operators.python.scalar.async.PythonAsyncScalarFunctionOperator.
Differs: rows leave the operator in pieces of a batch.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError
from flinkpy.functions.async_functions import AsyncRetryStrategy, FixedDelayRetryStrategy
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.graph.table_specs import AsyncCalcSpec
from flinkpy.records.batch import Batch
from flinkpy.records.scalar_codecs import ValueMismatch
from flinkpy.sql.functions.user_functions import user_function_failed
from flinkpy.sql.rex import InputRef, UserFunctionCall
from flinkpy.sql.types.logical_codecs import logical_codec
from flinkpy.streaming.async_io.async_pieces_operator import AsyncPiecesOperator
from flinkpy.streaming.async_io.async_runner import Retries
from flinkpy.streaming.async_io.time_limit import completed_within
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.table_inputs import input_schema


class AsyncCalcOperator(AsyncPiecesOperator):
    """Thread: task thread. The user's functions run on the loop thread."""

    def __init__(
        self,
        spec: AsyncCalcSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        self._output_schema = input_schema(spec.output_type)
        self._rows_type = input_type
        super().__init__(_Calls(spec), spec.capacity, True, input_type, context, output, side_outputs)

    def piece_of(self, batch: Batch) -> Batch:
        return as_columnar(batch, self._rows_type)

    def batch_of(self, piece: Batch) -> Batch:
        return piece

    def joined(self, piece: Batch, result: list[pa.Array]) -> list[Batch]:
        assert isinstance(piece.values, pa.RecordBatch)
        columns = [*piece.values.columns, *result]
        return [Batch(pa.RecordBatch.from_arrays(columns, schema=self._output_schema), None, piece.kinds)]


class _Calls:
    """The AsyncFunction that calls the user's functions for the rows of a piece."""

    def __init__(self, spec: AsyncCalcSpec) -> None:
        self._functions = [_Function(call, spec) for call in spec.calls]
        self._capacity = spec.capacity
        self._free: asyncio.Semaphore | None = None

    def open(self, context: Any) -> None:
        for each in self._functions:
            each.function.open(FunctionContext(context))

    def close(self) -> None:
        for each in self._functions:
            each.function.close()

    def timeout(self, piece: Batch) -> list[Any]:
        raise TimeoutError("Async function call has timed out.")

    async def async_invoke(self, piece: Batch) -> list[list[pa.Array]]:
        """Returns one element: a column of results per function."""
        if self._free is None:
            self._free = asyncio.Semaphore(self._capacity)
        assert isinstance(piece.values, pa.RecordBatch)
        rows = piece.values
        return [list(await asyncio.gather(*(each.results(rows, self._free) for each in self._functions)))]


class _Function:
    """One asynchronous function, with its timeout and its retries."""

    def __init__(self, call: UserFunctionCall, spec: AsyncCalcSpec) -> None:
        self.function = call.function
        self._call = call
        self._timeout_s = spec.timeout_ms / 1_000
        self._columns = [each.index for each in call.arguments if isinstance(each, InputRef)]
        self._arguments = [logical_codec(each.type) for each in call.arguments]
        self._result = logical_codec(call.type)
        self._strategy: AsyncRetryStrategy | None = None
        if spec.max_attempts:
            self._strategy = FixedDelayRetryStrategy(spec.max_attempts, spec.retry_delay_ms, None, lambda error: True)

    async def results(self, batch: pa.RecordBatch, free: asyncio.Semaphore) -> pa.Array:
        """Returns the results for all rows.

        Raises:
            FunctionError: if the function raises, or takes too long.
            TypeMismatchError: if a result does not have the declared type.
        """
        name, kind = self._call.name, self._call.type
        values = [codec.decode(batch.column(place)) for codec, place in zip(self._arguments, self._columns)]
        rows = zip(*values) if values else [()] * batch.num_rows
        try:
            found = await asyncio.gather(*(self._one(row, free) for row in rows))
        except Exception as error:
            raise user_function_failed(name, error) from error
        try:
            return self._result.encode(found)
        except ValueMismatch as mismatch:
            raise TypeMismatchError(
                f"the function {name} returned {mismatch.value!r:.120} ({type(mismatch.value).__name__}), which is not "
                f"a {kind}"
            ) from None

    async def _one(self, row: tuple[Any, ...], free: asyncio.Semaphore) -> Any:
        async with free:
            return await completed_within(self._timeout_s, self._attempts(row))

    async def _attempts(self, row: tuple[Any, ...]) -> Any:
        if self._strategy is None:
            return await self.function.eval(*row)
        retries = Retries(lambda arguments: self.function.eval(*arguments), self._strategy)
        try:
            return await self.function.eval(*row)
        except Exception as error:
            if not retries.is_due_after_error(error, 1):
                raise
            return await retries.invoke_again(row)
