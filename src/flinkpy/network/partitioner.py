"""Partitioners: they choose the channel of each record, for a whole batch in one pass.

A partitioner returns a `Routing`: an order of the rows (or None) and, per channel, a range of that order. The rows are
moved once and then sliced, whatever the number of channels.

The user API pickles partitioners into the JobGraph. Therefore this module imports NumPy and Arrow only when a batch is
routed.

Source: org.apache.flink.streaming.runtime.partitioner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import describe, format_user_traceback
from flinkpy.common.errors import FunctionError, TypeMismatchError, UserError

if TYPE_CHECKING:
    import numpy as np

    from flinkpy.records.batch import Batch


#: Larger batches are rebalanced in slices. Batches are smaller only where records are few: in a short input, or where
#: the buffer timeout ends them. There, taking every n-th row costs some 30 us for each batch.
MAX_ROWS_IN_TURN = 1_024


class Routing:
    """The channels of the rows of one batch.

    Attributes:
        order: int64[n] permutation of the rows, or None if they keep their order.
        ranges: (channel, start, end) in that order; together they cover every row once.
    """

    __slots__ = ("order", "ranges")

    def __init__(self, order: np.ndarray | None, ranges: list[tuple[int, int, int]]) -> None:
        self.order = order
        self.ranges = ranges

    def apply(self, batch: Batch) -> list[tuple[int, Batch]]:
        """Returns the batch of each channel. Columns are moved once and sliced."""
        if self.order is None:
            if len(self.ranges) == 1:
                return [(self.ranges[0][0], batch)]
            return [(channel, batch.slice(start, end - start)) for channel, start, end in self.ranges]
        if batch.is_columnar:
            taken = batch.take(self.order)
            return [(channel, taken.slice(start, end - start)) for channel, start, end in self.ranges]
        return [(channel, batch.take(self.order[start:end])) for channel, start, end in self.ranges]


class Partitioner:
    """Base class. Thread: the producer's task thread. Call `setup` once, then `route` per batch."""

    #: The value of `IntermediateDataSet.partitioner_name`.
    name = ""
    #: True if every record goes to every channel. Then `route` is not called.
    is_broadcast = False
    #: True if a consumer reads from some producers only (JobEdge distribution POINTWISE instead of ALL_TO_ALL).
    is_pointwise = False
    #: True if `route` is faster on columns; the record writer then converts typed rows first.
    prefers_columns = True
    #: True if `route` depends on keys that the consumer computes again from the received records. Then records must be
    #: converted to their declared type before they are routed.
    reads_state_keys = False

    def __init__(self) -> None:
        self.num_channels = 1
        self.subtask_index = 0
        self.max_parallelism = 128

    def setup(self, num_channels: int, *, subtask_index: int = 0, max_parallelism: int = 128) -> None:
        """Prepares the partitioner in the producer's task, before the first `route`."""
        self.num_channels = num_channels
        self.subtask_index = subtask_index
        self.max_parallelism = max_parallelism

    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        """Chooses the channels of the rows.

        Args:
            batch: at least one row.
            type_info: TypeInformation of the rows, or None for untyped Python objects.
        """
        raise NotImplementedError

    def split(self, batch: Batch, type_info: Any = None) -> list[tuple[int, Batch]]:
        """Returns (channel, batch) for each channel that gets rows. Rows of a channel stay in stream order."""
        if self.is_broadcast:
            return [(channel, batch) for channel in range(self.num_channels)]
        return self.route(batch, type_info).apply(batch)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.name


class _OneChannel(Partitioner):
    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        return Routing(None, [(0, 0, batch.num_rows)])


class ForwardPartitioner(_OneChannel):
    """Sends all records to the one subtask that is connected to this one."""

    name = "FORWARD"
    is_pointwise = True


class GlobalPartitioner(_OneChannel):
    """Sends all records to the first subtask."""

    name = "GLOBAL"


class BroadcastPartitioner(Partitioner):
    """Sends all records to every subtask."""

    name = "BROADCAST"
    is_broadcast = True

    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        raise TypeError("a broadcast batch is emitted as a whole; route is not called for it")


class RebalancePartitioner(Partitioner):
    """Distributes records round-robin; after any number of batches, channels differ by one record at most.

    Batches of up to `MAX_ROWS_IN_TURN` rows are distributed record by record, as in Flink. A channel gets one
    contiguous slice of a larger batch, so that nothing is copied. Differs: in Flink it gets every n-th record of those
    too.
    """

    name = "REBALANCE"

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def setup(self, num_channels: int, *, subtask_index: int = 0, max_parallelism: int = 128) -> None:
        super().setup(num_channels, subtask_index=subtask_index, max_parallelism=max_parallelism)
        self._next = subtask_index % num_channels  # producers start at different consumers

    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        channels, rows = self.num_channels, batch.num_rows
        each, odd = divmod(rows, channels)
        order = None
        if 1 < channels < rows <= MAX_ROWS_IN_TURN:
            import numpy as np

            order = np.argsort(np.arange(rows) % channels, kind="stable")
        ranges = []
        start = 0
        for turn in range(channels if each else odd):
            end = start + each + (turn < odd)
            ranges.append(((self._next + turn) % channels, start, end))
            start = end
        self._next = (self._next + odd) % channels
        return Routing(order, ranges)


class RescalePartitioner(RebalancePartitioner):
    """Distributes records round-robin among the subtasks that are connected to this one."""

    name = "RESCALE"
    is_pointwise = True


class ShufflePartitioner(Partitioner):
    """Sends each record to a random channel."""

    name = "SHUFFLE"

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()
        self._seed = seed
        self._random: Any = None

    def setup(self, num_channels: int, *, subtask_index: int = 0, max_parallelism: int = 128) -> None:
        super().setup(num_channels, subtask_index=subtask_index, max_parallelism=max_parallelism)
        import numpy as np

        self._random = np.random.default_rng(self._seed)

    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        if self.num_channels == 1:
            return Routing(None, [(0, 0, batch.num_rows)])
        return scatter(self._random.integers(0, self.num_channels, batch.num_rows), self.num_channels)


class KeyGroupStreamPartitioner(Partitioner):
    """Partitions by key group: all records of a key go to the subtask that owns the state of that key."""

    name = "HASH"
    reads_state_keys = True

    def __init__(self, key_selector: Any, key_type: Any = None) -> None:
        super().__init__()
        self.key_selector = key_selector
        self.key_type = key_type

    @property
    def prefers_columns(self) -> bool:  # type: ignore[override]
        return _selected_fields(self.key_selector) is not None

    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        if self.num_channels == 1:
            return Routing(None, [(0, 0, batch.num_rows)])
        from flinkpy.records import declared_keys, key_hash

        columns = _key_columns(batch, self.key_selector)
        if columns is None:
            columns = self._picked_column(batch, type_info)
        if columns is not None:
            hashes = key_hash.hash_columns(columns)
        else:
            keys = keys_of(batch, self.key_selector, type_info)
            hashes = key_hash.hash_keys(declared_keys.as_declared(keys, self.key_type))
        groups = key_hash.key_groups(hashes, self.max_parallelism)
        # Flink's assignment of key groups to subtasks; 32768 groups times 32768 subtasks fit in int32.
        return scatter(groups * self.num_channels // self.max_parallelism, self.num_channels)

    def _picked_column(self, batch: Batch, type_info: Any) -> list[Any] | None:
        """Returns the key column if the batch has columns and the selector only picks one of them, else None."""
        values = batch.values
        if isinstance(values, list) or type_info is None:
            return None
        from flinkpy.records.key_selection import picked_column

        get_key = getattr(self.key_selector, "get_key", self.key_selector)
        position = picked_column(get_key, self.key_type, type_info)
        if position is None or values.num_columns != len(type_info.get_field_types()):
            return None
        column = values.column(position)
        return None if column.null_count else [column]


class CustomPartitioner(Partitioner):
    """Partitions by a user function of key and number of channels.

    Args:
        function: PyFlink's `Partitioner` (has `partition(key, num_partitions)`), or a callable with the same arguments.
    """

    name = "CUSTOM"
    prefers_columns = False

    def __init__(self, function: Any, key_selector: Any) -> None:
        super().__init__()
        self.function = function
        self.key_selector = key_selector

    def route(self, batch: Batch, type_info: Any = None) -> Routing:
        import numpy as np

        keys = keys_of(batch, self.key_selector, type_info)
        partition = getattr(self.function, "partition", self.function)
        count = self.num_channels
        try:
            chosen = [partition(key, count) for key in keys]
        except Exception as error:
            raise _function_error("custom partitioner", error) from error
        for key, channel in zip(keys, chosen):
            if not isinstance(channel, int | np.integer) or isinstance(channel, bool) or not 0 <= channel < count:
                raise UserError(
                    f"the custom partitioner {_name_of(self.function)} returned {channel!r} for key {key!r:.100}: "
                    f"it must return an int from 0 to {count - 1}"
                )
        return scatter(np.array(chosen, dtype=np.int64), count)


def scatter(channels: np.ndarray, num_channels: int) -> Routing:
    """Returns the routing for one channel per row. Uses one stable counting sort.

    Args:
        channels: int[n], each in [0, num_channels).
    """
    import numpy as np

    counts = np.bincount(channels, minlength=num_channels)
    used = np.flatnonzero(counts)
    if len(used) == 1:
        return Routing(None, [(int(used[0]), 0, len(channels))])
    # NumPy sorts integers of up to 16 bits with a radix sort in linear time. Wider integers cost n log n.
    narrow: Any = np.uint32
    if num_channels <= 1 << 8:
        narrow = np.uint8
    elif num_channels <= 1 << 16:
        narrow = np.uint16
    order = np.argsort(channels.astype(narrow), kind="stable")
    ends = np.cumsum(counts)[used].tolist()
    return Routing(order, list(zip(used.tolist(), [0, *ends[:-1]], ends)))


def keys_of(batch: Batch, key_selector: Any, type_info: Any = None) -> list[Any]:
    """Returns the key of each record, by the `get_key` of the selector or by the callable itself.

    Raises:
        FunctionError: the selector raised.
    """
    rows = batch.values
    if not isinstance(rows, list):
        from flinkpy.records.lanes import rows_of, type_info_of_schema

        rows = rows_of(batch, type_info if type_info is not None else type_info_of_schema(rows.schema))
    from flinkpy.records.key_selection import picker_of, select_keys

    get_key = getattr(key_selector, "get_key", key_selector)
    try:
        return select_keys(get_key, picker_of(get_key), rows)
    except Exception as error:
        raise _function_error("key selector", error) from error


def _selected_fields(key_selector: Any) -> tuple[int | str, ...] | None:
    """Returns the fields of a `FieldKeySelector`, or None for any other selector."""
    fields = getattr(key_selector, "fields", None)
    return fields if isinstance(fields, tuple) and fields else None


def _key_columns(batch: Batch, key_selector: Any) -> list[Any] | None:
    """Returns the key columns if the batch has columns and the selector names them, else None."""
    fields = _selected_fields(key_selector)
    if fields is None or isinstance(batch.values, list):
        return None
    try:
        return [batch.values.column(field) for field in fields]
    except (KeyError, IndexError) as error:
        names = ", ".join(batch.values.schema.names)
        raise TypeMismatchError(f"key field {error} is not a column of the stream, which has {names}") from error


def _function_error(what: str, error: Exception) -> FunctionError:
    return FunctionError(f"{what}: {describe(error)}", remote_traceback=format_user_traceback(error))


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
