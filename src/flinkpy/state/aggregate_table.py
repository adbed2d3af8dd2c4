"""AggregateTable: keyed state of column-wise aggregations. It maps key columns to slots of accumulators.

In a snapshot each key group is a sequence of Arrow batches: the key columns, then the columns of each accumulator. So
every backend reads columns, and no Python object is created per key.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import StateMigrationError, StateRestoreError
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.state.accumulators import Accumulator, FrozenColumns, create_accumulator
from flinkpy.state.heap_snapshot import FrozenState, ends_of_groups
from flinkpy.state.key_groups_file import KeyGroupsFileWriter
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.meta_info import TABLE, StateMetaInfo
from flinkpy.state.table_accumulators import SQL, create_table_accumulator
from flinkpy.state.type_snapshot import PICKLED

#: Rows of one batch in a file. Writing them takes about a millisecond.
_BATCH_ROWS = 16_384
#: The function name of an AggregateColumn whose function is a CompiledAggregate of the user's program.
COMPILED = "COMPILED"
#: The function name of an AggregateColumn of SQL whose function is the user's; its only accumulator type is the
#: result's.
USER = f"{SQL}$USER"


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """One aggregate of a table.

    Attributes:
        function: a name that `create_accumulator` accepts, or COMPILED.
        value_type: the type of the aggregated column; None for a COUNT of rows; a struct of the columns for COMPILED.
        accumulator_types: the types of the accumulator's columns for COMPILED; the type of the result for USER.
        compiled: the CompiledAggregate for COMPILED, the user's function for USER; None if the column only serves to
            read snapshots.
    """

    function: str
    value_type: pa.DataType | None = None
    accumulator_types: tuple[pa.DataType, ...] = ()
    compiled: Any = field(default=None, compare=False)

    def create_accumulator(self) -> Accumulator:
        if self.function == COMPILED:
            from flinkpy.state.compiled_accumulator import CompiledAccumulator

            assert self.value_type is not None
            return CompiledAccumulator(self.value_type, self.compiled, self.accumulator_types)
        if self.function == f"{SQL}COUNT_DISTINCT":
            from flinkpy.state.distinct_accumulator import WeightedDistinctCountAccumulator

            assert self.value_type is not None
            return WeightedDistinctCountAccumulator(self.value_type)
        if self.function == USER:
            from flinkpy.state.object_accumulators import ObjectAccumulator, UserAggregate

            user_function = None if self.compiled is None else UserAggregate(self.compiled)
            return ObjectAccumulator(user_function, self.accumulator_types[0])
        if self.function.startswith(SQL):
            return create_table_accumulator(self.function, self.value_type)
        return create_accumulator(self.function, self.value_type)


@dataclass(frozen=True)
class TableLayout:
    """The columns of a table.

    Attributes:
        key_types: the types of the key columns.
        aggregates: the aggregates.
        namespaces: the number of int64 columns that distinguish the entries of one key, such as window times. The key
            group of an entry does not depend on them.
        map_types: the types of further columns that distinguish the entries of one key, as in a GroupMap.
    """

    key_types: tuple[pa.DataType, ...]
    aggregates: tuple[AggregateColumn, ...]
    namespaces: int = 0
    map_types: tuple[pa.DataType, ...] = ()

    @property
    def entry_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns that identify an entry: those of the key, the namespaces, then those of the map."""
        return (*self.key_types, *[pa.int64()] * self.namespaces, *self.map_types)

    def create_accumulators(self) -> list[Accumulator]:
        return [aggregate.create_accumulator() for aggregate in self.aggregates]

    def to_json(self) -> dict[str, Any]:
        """Returns the layout as JSON. `keys` and `values` are Arrow schemas in IPC form; COUNT of rows has no value."""
        values = [(i, aggregate.value_type) for i, aggregate in enumerate(self.aggregates)]
        return {
            "keys": _schema_text([(f"k{i}", key_type) for i, key_type in enumerate(self.key_types)]),
            "functions": [aggregate.function.upper() for aggregate in self.aggregates],
            "values": _schema_text([(str(i), kind) for i, kind in values if kind is not None]),
            "namespaces": self.namespaces,
            "map": _schema_text([(f"m{i}", map_type) for i, map_type in enumerate(self.map_types)]),
            "accumulators": [
                _schema_text([(str(i), kind) for i, kind in enumerate(aggregate.accumulator_types)])
                for aggregate in self.aggregates
            ],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> TableLayout:
        values = _schema_of(data["values"])
        types = {int(field.name): field.type for field in values}
        accumulators = data.get("accumulators") or [None] * len(data["functions"])
        aggregates = [
            AggregateColumn(function, types.get(i), () if text is None else tuple(_schema_of(text).types))
            for i, (function, text) in enumerate(zip(data["functions"], accumulators))
        ]
        map_types = tuple(_schema_of(data["map"]).types) if data.get("map") else ()
        return TableLayout(
            tuple(_schema_of(data["keys"]).types), tuple(aggregates), data.get("namespaces", 0), map_types
        )

    def meta_info(self, name: str) -> StateMetaInfo:
        return StateMetaInfo(name, TABLE, PICKLED, table=self.to_json())

    def check_restored(self, stored: StateMetaInfo, operator_name: str) -> None:
        """Checks that a table with this layout can read the stored state.

        Raises:
            StateRestoreError: the stored state is not a table.
            StateMigrationError: the stored table has other columns.
        """
        state = f"operator {operator_name!r}, state {stored.name!r}"
        details = {"operator": operator_name, "state": stored.name}
        if stored.kind != TABLE or stored.table is None:
            raise StateRestoreError(
                f"{state}: it was stored as a {stored.kind} state and is requested as a table", details=details
            )
        was = TableLayout.from_json(stored.table)
        if was.namespaces != self.namespaces:
            raise StateMigrationError(
                f"{state}: its entries were stored with {was.namespaces} window times and now have {self.namespaces}",
                details=details,
            )
        if was.key_types != self.key_types:
            raise StateMigrationError(
                f"{state}: the key columns were {_show(was.key_types)} and are {_show(self.key_types)} now",
                details={**details, "field": "key"},
            )
        if was.map_types != self.map_types:
            raise StateMigrationError(
                f"{state}: the columns of its map were {_show(was.map_types)} and are {_show(self.map_types)} now",
                details={**details, "field": "map"},
            )
        for position, (old, new) in enumerate(zip(was.aggregates, self.aggregates)):
            if _identity(old) != _identity(new):
                raise StateMigrationError(
                    f"{state}: aggregate {position} was {_show_aggregate(old)} and is {_show_aggregate(new)} now",
                    details={**details, "field": str(position)},
                )
        if len(was.aggregates) != len(self.aggregates):
            raise StateMigrationError(
                f"{state}: it was stored with {len(was.aggregates)} aggregates and now has {len(self.aggregates)}",
                details=details,
            )


class AggregateTable(ABC):
    """Accumulators by key. Thread: task thread.

    Attributes:
        layout: the columns of the table.
    """

    layout: TableLayout

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of keys."""

    @abstractmethod
    def add(self, key_columns: list[pa.Array], value_columns: Sequence[pa.Array | None]) -> np.ndarray:
        """Adds a batch.

        Args:
            key_columns: one array per key column.
            value_columns: one array per aggregate; None for a COUNT of rows.

        Returns: int64[n]: the slot of each row's key. New keys get the next slots.
        """

    @abstractmethod
    def results(self, slots: np.ndarray) -> list[pa.Array]:
        """Returns one column per aggregate with the results of the slots."""

    @abstractmethod
    def keys(self) -> list[pa.Array]:
        """Returns the key columns of all slots."""


class HeapAggregateTable(AggregateTable):
    """An AggregateTable that holds all keys in memory."""

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self._keys = KeySlots(list(layout.key_types))
        self._accumulators = layout.create_accumulators()

    @property
    def size(self) -> int:
        return self._keys.size

    def add(self, key_columns: list[pa.Array], value_columns: Sequence[pa.Array | None]) -> np.ndarray:
        slots = self._keys.slots_of(key_columns)
        size = self._keys.size
        for accumulator, values in zip(self._accumulators, value_columns, strict=True):
            accumulator.grow(size)
            accumulator.add(slots, values)
        return slots

    def results(self, slots: np.ndarray) -> list[pa.Array]:
        return [accumulator.results(slots) for accumulator in self._accumulators]

    def keys(self) -> list[pa.Array]:
        return self._keys.keys()

    # -- snapshots, by the backend ---------------------------------------------------------------------------------

    def freeze(self, meta: StateMetaInfo) -> FrozenTable:
        size = self._keys.size
        return FrozenTable(
            meta, size, self._keys.key_chunks(), [accumulator.freeze(size) for accumulator in self._accumulators]
        )

    def restore(self, data: bytes) -> None:
        """Adds batches that a FrozenTable wrote. Their keys must be new."""
        for batch in pa.ipc.open_stream(data):
            self.restore_batch(batch)

    # -- as columns ------------------------------------------------------------------------------------------------

    @property
    def extra_bytes(self) -> int:
        """The approximate memory of the accumulators in bytes, beyond one or two numbers per key."""
        return sum(accumulator.extra_bytes for accumulator in self._accumulators)

    def to_batch(self) -> pa.RecordBatch:
        """Returns the key columns, followed by the columns of each accumulator."""
        columns = self.keys()
        for accumulator in self._accumulators:
            columns += accumulator.freeze(self.size)()
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def restore_batch(self, batch: pa.RecordBatch) -> None:
        """Adds a batch that `to_batch` returned. Its keys must be new."""
        columns = batch.columns
        width = len(self.layout.key_types)
        slots = self._keys.slots_of(columns[:width])
        for accumulator in self._accumulators:
            accumulator.grow(self._keys.size)
            accumulator.restore(slots, columns[width : width + accumulator.num_columns])
            width += accumulator.num_columns


class FrozenTable(FrozenState):
    """A frozen table: copies of its columns, or restored batches that no operator has requested."""

    def __init__(
        self, meta: StateMetaInfo, size: int, key_chunks: list[list[pa.Array]], accumulators: list[FrozenColumns]
    ) -> None:
        super().__init__(meta)
        self._size = size
        self._key_chunks = key_chunks
        self._accumulators = accumulators
        self._restored: list[bytes] = []
        self._batch: pa.RecordBatch | None = None

    @staticmethod
    def of_batches(meta: StateMetaInfo, batches: list[tuple[int, bytes]]) -> FrozenTable:
        table = FrozenTable(meta, sum(rows for rows, _ in batches), [], [])
        table._restored = [data for _, data in batches]
        return table

    def __len__(self) -> int:
        return self._size

    def sort(self, max_parallelism: int) -> np.ndarray:
        batch = self._unsorted()
        assert self.meta.table is not None
        num_keys = len(TableLayout.from_json(self.meta.table).key_types)
        groups = key_groups(hash_columns(batch.columns[:num_keys]), max_parallelism)
        self._batch = batch.take(pa.array(np.argsort(groups.astype(np.uint16), kind="stable")))
        return ends_of_groups(groups, max_parallelism)

    def _unsorted(self) -> pa.RecordBatch:
        if self._restored:
            batches = [batch for data in self._restored for batch in pa.ipc.open_stream(data)]
            return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        columns = [pa.concat_arrays(chunks) for chunks in self._key_chunks]
        for accumulator in self._accumulators:
            columns += accumulator()
        return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])

    def write(self, writer: KeyGroupsFileWriter, index: int, start: int, end: int) -> None:
        assert self._batch is not None
        for begin in range(start, end, _BATCH_ROWS):
            batch = self._batch.slice(begin, min(_BATCH_ROWS, end - begin))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            writer.write_payload(index, batch.num_rows, memoryview(sink.getvalue()))

    def drop(self) -> None:
        self._batch = None
        self._key_chunks.clear()
        self._accumulators.clear()
        self._restored.clear()


def _schema_text(fields: list[tuple[str, pa.DataType]]) -> str:
    return base64.b64encode(pa.schema([pa.field(*field) for field in fields]).serialize().to_pybytes()).decode()


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _identity(aggregate: AggregateColumn) -> tuple[Any, ...]:
    """Returns the parts that must be equal for an aggregate to continue with stored accumulators."""
    return aggregate.function.upper(), aggregate.value_type, aggregate.accumulator_types


def _show(types: tuple[pa.DataType, ...]) -> str:
    return f"({', '.join(map(str, types))})"


def _show_aggregate(aggregate: AggregateColumn) -> str:
    shown = f"{aggregate.function}({'*' if aggregate.value_type is None else aggregate.value_type})"
    return f"{shown} in {_show(aggregate.accumulator_types)}" if aggregate.accumulator_types else shown
