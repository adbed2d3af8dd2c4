"""DataGeneratorSource: generates records from the numbers 0, 1, 2, ..., optionally at a limited rate.

A number always produces the same record, so a restored source continues exactly where it was. A split is a range of
numbers.

Source: org.apache.flink.connector.datagen.source.DataGeneratorSource,
org.apache.flink.api.connector.source.util.ratelimit.{RateLimiterStrategy,GuavaRateLimiter,GatedRateLimiter}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import TypeMismatchError
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.number_sequence import NumberSequenceSource, NumberSequenceSplit
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch
from abc import ABC, abstractmethod

_INT64_MAX = (1 << 63) - 1


_NS = 1_000_000_000

#: The unused permits of at most this time may be used at once.
_BURST_NS = _NS

#: The shortest wait. At a high rate it lets records through in groups, which costs less than one at a time.
_GROUP_NS = 10_000_000


class RateLimiter(ABC):
    """Limits the rate of one reader. Thread: task thread."""

    @abstractmethod
    def available(self) -> int:
        """Returns how many records may be emitted now."""

    @abstractmethod
    def take(self, records: int) -> None:
        """Subtracts emitted records."""

    def wait_ns(self) -> int | None:
        """Returns the time until a record may be emitted; None if that is after `notify_checkpoint_complete`.

        Called when no record may be emitted now.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        return


class RateLimiterStrategy(ABC):
    """Creates the rate limiter of each reader. Pickled with the source."""

    @abstractmethod
    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter | None:
        """Returns a limiter for one reader; None for no limit."""

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Limits all readers together to a number of records per second. Each gets an equal share."""
        if isinstance(records_per_second, bool) or not records_per_second > 0:
            raise ValueError(f"records_per_second must be positive, not {records_per_second!r}")
        return _PerSecond(records_per_second)

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """Limits all readers together to a number of records between two checkpoints.

        Args:
            records_per_checkpoint: at least the parallelism, because each reader gets an equal share.
        """
        if isinstance(records_per_checkpoint, bool) or not isinstance(records_per_checkpoint, int):
            raise TypeError(f"records_per_checkpoint must be an int, not {records_per_checkpoint!r}")
        if records_per_checkpoint <= 0:
            raise ValueError(f"records_per_checkpoint must be positive, not {records_per_checkpoint}")
        return _PerCheckpoint(records_per_checkpoint)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Sets no limit."""
        return _NoLimit()


class _NoLimit(RateLimiterStrategy):
    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter | None:
        return None


class _PerSecond(RateLimiterStrategy):
    def __init__(self, records_per_second: float) -> None:
        self._records_per_second = records_per_second

    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter:
        return _SmoothLimiter(self._records_per_second / parallelism, monotonic_ns)


class _PerCheckpoint(RateLimiterStrategy):
    def __init__(self, records_per_checkpoint: int) -> None:
        self._records_per_checkpoint = records_per_checkpoint

    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter:
        share = self._records_per_checkpoint // parallelism
        if not share:
            raise ValueError(
                f"records_per_checkpoint={self._records_per_checkpoint} has to be greater than or equal to the "
                f"parallelism, which is {parallelism}"
            )
        return _GatedLimiter(share)


class _SmoothLimiter(RateLimiter):
    """Adds permits evenly over time. There is one at the start."""

    def __init__(self, per_second: float, monotonic_ns: Callable[[], int]) -> None:
        self._per_ns = per_second / _NS
        self._monotonic_ns = monotonic_ns
        self._updated_ns = monotonic_ns()
        self._permits = 1.0
        self._most = max(1.0, _BURST_NS * self._per_ns)

    def available(self) -> int:
        now_ns = self._monotonic_ns()
        self._permits = min(self._most, self._permits + (now_ns - self._updated_ns) * self._per_ns)
        self._updated_ns = now_ns
        return int(self._permits)

    def take(self, records: int) -> None:
        self._permits -= records

    def wait_ns(self) -> int:
        return max(int((1 - self._permits) / self._per_ns) + 1, _GROUP_NS)


class _GatedLimiter(RateLimiter):
    """Allows a number of records until the next checkpoint is complete."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._left = share

    def available(self) -> int:
        return self._left

    def take(self, records: int) -> None:
        self._left -= records

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._left = self._share


class GeneratorFunction:
    """Generates a record from its number. Use a plain function with one argument unless you need `open` or `close`.

    Subclasses define either `map(index)` or `map_batch(indices)`. The latter generates many records at a time.
    `indices` is a numpy array of int64. The result is a pyarrow.RecordBatch or a list with one record per index, in
    order.
    """

    #: Generates many records at a time; None to use `map`.
    map_batch: Callable[[Any], Any] | None = None

    def open(self, context: SourceReaderContext) -> None:
        """Called in each reader before the first record."""
        return

    def map(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines neither map nor map_batch")

    def close(self) -> None:
        return


class DataGeneratorSource(SourceBase):
    """Generates records from the numbers 0 to `count` - 1. Each subtask emits them in ascending order.

    Args:
        generator_function: a GeneratorFunction, or a function that takes a number and returns a record.
        count: the number of records of all readers together; None for no end (2**63 - 1, as in Flink).
        rate_limiter_strategy: limits the rate; None for no limit.
        type_info: TypeInformation of the records, which are checked against it; None for pickled Python objects.

    Example:
        >>> source = DataGeneratorSource(lambda n: (n, n % 7), 1_000_000, RateLimiterStrategy.per_second(10_000))
        >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "generated")
    """

    def __init__(
        self,
        generator_function: GeneratorFunction | Callable[[int], Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: Any = None,
    ) -> None:
        if not isinstance(generator_function, GeneratorFunction) and not callable(generator_function):
            raise TypeError(f"generator_function must be a GeneratorFunction or a callable, not {generator_function!r}")
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise TypeError(f"count must be an int, not {count!r}")
        if count is not None and count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        if rate_limiter_strategy is not None and not isinstance(rate_limiter_strategy, RateLimiterStrategy):
            raise TypeError(f"rate_limiter_strategy must be a RateLimiterStrategy, not {rate_limiter_strategy!r}")
        self._function = generator_function
        self._count = _INT64_MAX if count is None else count
        self._strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self._type_info = type_info
        self._is_bounded = count is not None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> Any:
        return self._type_info

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self._numbers().create_enumerator(context)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return self._numbers().restore_enumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        limiter = self._strategy.create_rate_limiter(context.parallelism, context.monotonic_ns)
        return _GeneratingReader(context, self._function, limiter, self._type_info)

    def for_coordinator(self) -> SourceBase:
        """Returns a source without the function, whose module the JobMaster may not have."""
        return DataGeneratorSource(GeneratorFunction(), self._count if self._is_bounded else None)

    def _numbers(self) -> NumberSequenceSource:
        return _NoNumbers() if self._count == 0 else NumberSequenceSource(0, self._count - 1)


class _NoNumbers(NumberSequenceSource):
    def __init__(self) -> None:
        super().__init__(0, 0)

    def split(self, num_splits: int) -> list[NumberSequenceSplit]:
        return []


class _GeneratingReader(SequentialSplitReader):
    """Reads at most as many records at a time as the limiter allows."""

    def __init__(
        self, context: SourceReaderContext, function: Any, limiter: RateLimiter | None, type_info: Any
    ) -> None:
        self._limited = context if limiter is None else _LimitedContext(context, limiter)
        super().__init__(self._limited)
        self._limiter = limiter
        self._function = function
        self._type_info = type_info
        self._is_opened = False
        self._is_timer_set = False

    def start(self) -> None:
        if isinstance(self._function, GeneratorFunction):
            self._is_opened = True
            self._function.open(self._context)
        super().start()

    def poll_batch(self) -> Batch | ReaderStatus:
        limiter = self._limiter
        if limiter is None:
            return super().poll_batch()
        if limiter.available() < 1 and self._may_have_more:
            wait_ns = limiter.wait_ns()
            if wait_ns is not None and not self._is_timer_set:
                self._is_timer_set = True
                self._context.schedule(-(-wait_ns // 1_000_000), self._on_timer)
            return ReaderStatus.NOTHING_AVAILABLE
        batch = super().poll_batch()
        if not isinstance(batch, ReaderStatus):
            limiter.take(batch.num_rows)
        return batch

    def _on_timer(self, _: int) -> None:
        """Allows the next timer. The task polls its reader after every timer."""
        self._is_timer_set = False

    @property
    def _may_have_more(self) -> bool:
        return self._open is not None or bool(self._splits)

    def open_split(self, split: NumberSequenceSplit) -> OpenSplit:
        return _OpenNumbers(split, self._context, self._function, self._type_info)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._limiter is not None:
            self._limiter.notify_checkpoint_complete(checkpoint_id)
            self._context.notify_available()

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._is_opened:
                self._function.close()


class _LimitedContext:
    """The reader's context, with batches as short as the limiter requires."""

    def __init__(self, context: SourceReaderContext, limiter: RateLimiter) -> None:
        self._context = context
        self._limiter = limiter

    @property
    def max_batch_rows(self) -> int:
        return max(1, min(self._context.max_batch_rows, self._limiter.available()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _OpenNumbers:
    """The unread part of a range of numbers."""

    def __init__(self, split: NumberSequenceSplit, context: Any, function: Any, type_info: Any) -> None:
        self._split = split
        self._next = split.start
        self._context = context
        self._type_info = type_info
        is_generator = isinstance(function, GeneratorFunction)
        self._map_batch = function.map_batch if is_generator else None
        self._map = function.map if is_generator else function

    def read_batch(self) -> Batch | None:
        import numpy as np

        from flinkpy.records.batch import Batch

        first = self._next
        rows = min(self._context.max_batch_rows, self._split.end - first + 1)
        if rows <= 0:
            return None
        values: Any
        if self._map_batch is None:
            values = list(map(self._map, range(first, first + rows)))
        else:
            values = self._map_batch(np.arange(rows, dtype=np.int64) + first)
        batch = Batch(values)
        if batch.num_rows != rows:
            raise TypeMismatchError(f"map_batch returned {batch.num_rows} records for {rows} numbers from {first} on")
        self._next = first + rows
        return self._typed(batch)

    def _typed(self, batch: Batch) -> Batch:
        from flinkpy.records.lanes import has_columns, to_columns

        if not has_columns(self._type_info):
            return batch
        return to_columns(batch, self._type_info)

    def rest(self, rows_back: int) -> NumberSequenceSplit:
        return NumberSequenceSplit(self._split.split_id, self._next - rows_back, self._split.end)

    def close(self) -> None:
        return
