"""AsyncDataStream: applies asynchronous functions, which call external services for many records at a time.

Source: pyflink.datastream.async_data_stream.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from flinkpy.common.time import Time
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.keyed_stream import KeyedStream
from flinkpy.functions.async_functions import NO_RETRY_STRATEGY, AsyncBatchFunction, AsyncFunction, AsyncRetryStrategy
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.transformation import OperatorTransformation

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation

__all__ = ["AsyncDataStream"]

DEFAULT_CAPACITY = 100
DEFAULT_BATCH_CAPACITY = 1000


class AsyncDataStream:
    """Applies asynchronous functions to a stream.

    `async_invoke` runs on an asyncio loop of the subtask, so it must await everything that takes time. Up to `capacity`
    records are in flight at once. If a record takes longer than `timeout`, retries included, its call is cancelled and
    `AsyncFunction.timeout` is called with it. An exception fails the job. Beyond PyFlink, `open` and `close` may be
    coroutines: they run on the same loop as the calls, which most clients require.

    No result overtakes a watermark. A checkpoint holds the records whose results have not been emitted. After a restore
    they are invoked again, so `async_invoke` may be called more than once for a record, but its results count once.

    Every method takes these arguments:

    * `data_stream`: the input.
    * `timeout`: the longest time for one record, as a Time.
    * `capacity`: the number of records that may be in flight.
    * `output_type`: the type of the results. None pickles them.

    Example:
        ```
        class LookUp(AsyncFunction):
            async def open(self, runtime_context):
                self.session = aiohttp.ClientSession()

            async def async_invoke(self, value):
                async with self.session.get(f"http://prices/{value}") as response:
                    return [(value, await response.text())]

        AsyncDataStream.unordered_wait(items, LookUp(), Time.seconds(5), capacity=200)
        ```
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies an AsyncFunction. Results are emitted as soon as they arrive."""
        return _async_wait(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=False
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies an AsyncFunction with retries. Results are emitted as soon as they arrive.

        Args:
            async_retry_strategy: decides which calls are repeated, how often and after what delay.
        """
        return _async_wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=False
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies an AsyncFunction. Results are emitted in the order of the records."""
        return _async_wait(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, is_ordered=True
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = DEFAULT_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies an AsyncFunction with retries. Results are emitted in the order of the records.

        Args:
            async_retry_strategy: decides which calls are repeated, how often and after what delay.
        """
        return _async_wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, is_ordered=True
        )

    @staticmethod
    def unordered_wait_batch(
        data_stream: DataStream,
        async_batch_function: AsyncBatchFunction,
        timeout: Time,
        max_batch_size: int,
        capacity: int = DEFAULT_BATCH_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies an AsyncBatchFunction. Results are emitted as soon as they arrive. Beyond PyFlink.

        A call takes the records that have arrived and does not wait for more. Batches are therefore large if records
        arrive faster than answers.

        Args:
            max_batch_size: the largest number of records of one call.
            capacity: the number of records in flight in all calls together.
        """
        return _async_wait_batch(
            data_stream, async_batch_function, timeout, max_batch_size, capacity, output_type, is_ordered=False
        )

    @staticmethod
    def ordered_wait_batch(
        data_stream: DataStream,
        async_batch_function: AsyncBatchFunction,
        timeout: Time,
        max_batch_size: int,
        capacity: int = DEFAULT_BATCH_CAPACITY,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Applies an AsyncBatchFunction, and emits results in the order of the records. Beyond PyFlink.

        It works as `unordered_wait_batch` otherwise.
        """
        return _async_wait_batch(
            data_stream, async_batch_function, timeout, max_batch_size, capacity, output_type, is_ordered=True
        )


def _async_wait(
    data_stream: DataStream,
    function: AsyncFunction,
    timeout: Time,
    strategy: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
    *,
    is_ordered: bool,
) -> DataStream:
    _check_function(function, AsyncFunction, "async_invoke", timeout)
    if strategy is None:
        raise ValueError("Async retry strategy should not be None.")
    if not isinstance(strategy, AsyncRetryStrategy):
        raise TypeError(f"a retry strategy must be an AsyncRetryStrategy, not {strategy!r}")
    if strategy is not NO_RETRY_STRATEGY and timeout.to_milliseconds() <= 0:
        raise ValueError("Timeout should be configured when do async with retry.")
    if strategy.get_retry_predicate() is None:
        raise ValueError(f"Retry predicate of the async retry strategy '{type(strategy)}' is None.")
    return _operator(data_stream, function, timeout, strategy, capacity, output_type, is_ordered)


def _async_wait_batch(
    data_stream: DataStream,
    function: AsyncBatchFunction,
    timeout: Time,
    max_batch_size: int,
    capacity: int,
    output_type: TypeInformation | None,
    *,
    is_ordered: bool,
) -> DataStream:
    _check_function(function, AsyncBatchFunction, "async_invoke_batch", timeout)
    _check_number("max_batch_size", max_batch_size)
    strategy = NO_RETRY_STRATEGY
    return _operator(data_stream, function, timeout, strategy, capacity, output_type, is_ordered, max_batch_size)


def _operator(
    data_stream: DataStream,
    function: Any,
    timeout: Time,
    strategy: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
    is_ordered: bool,
    max_batch_size: int = 0,
) -> DataStream:
    if not isinstance(data_stream, DataStream):
        raise TypeError(f"the input must be a DataStream, not {data_stream!r}")
    _check_number("capacity", capacity)
    spec = specs.AsyncWaitSpec(
        function,
        timeout.to_milliseconds(),
        capacity,
        strategy,
        is_ordered,
        data_stream.key_selector if isinstance(data_stream, KeyedStream) else None,
        data_stream.key_type if isinstance(data_stream, KeyedStream) else None,
        max_batch_size,
        input_types=(data_stream.transformation.output_type,),
        output_type=checks.output_type_of(output_type),
    )
    environment = data_stream.get_execution_environment()
    operator = OperatorTransformation("async wait operator", spec, (data_stream.transformation,))
    environment.add_operator(operator)
    return DataStream(operator, environment)


def _check_function(function: Any, required: type, method: str, timeout: Any) -> None:
    if not isinstance(timeout, Time):
        raise TypeError(f"timeout must be a Time, not {timeout!r}")
    if not isinstance(function, required):
        raise TypeError(f"The input must be an {required.__name__}, not {function!r}")
    if not inspect.iscoroutinefunction(getattr(function, method)):
        raise TypeError(f"Method '{method}' of class '{type(function)}' should be declared as 'async def'.")


def _check_number(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
        raise ValueError(f"{name} must be a positive number of records, not {number!r}")
