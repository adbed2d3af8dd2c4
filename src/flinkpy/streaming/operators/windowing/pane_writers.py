"""PaneWriters: add the records of a batch to the contents of their panes, without a runtime call per record.

In a heap backend, panes are looked up in the state's own table, by a plain tuple. In other backends, and while a
snapshot shares the values of the table, all panes of the batch are read at once and written back at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.heap_states import HeapListState, HeapValueState
from flinkpy.streaming.operators.rolling_functions import RollingReduce
from flinkpy.streaming.operators.windowing.window_contents import (
    Accumulator,
    AllRecords,
    ReducedValue,
    WindowContents,
    result_of,
)

#: Called with panes that may be new.
Register = Callable[[NamespacedKey], None]


class PaneWriter(ABC):
    """Writes, reads and clears the contents of panes. Thread: task thread.

    Args:
        contents: the contents of a WindowOperator. Its state must exist.
        register: called with panes that may be new.
    """

    def __init__(self, contents: WindowContents, register: Register) -> None:
        self.contents = contents
        self.state = contents.state
        self.register = register

    @abstractmethod
    def write(self, panes: Iterable[tuple[Any, ...]], rows: Iterable[Any]) -> None:
        """Adds each row to the pane at the same position. Calls `register` at least for all new panes."""

    @abstractmethod
    def read(self, panes: list[NamespacedKey], is_kept: bool) -> list[list[Any] | None]:
        """Returns `WindowContents.get` of each pane. `is_kept` is False if the panes are cleared next."""

    @abstractmethod
    def clear(self, panes: list[NamespacedKey]) -> None: ...


class ValueWriter(PaneWriter):
    """Writes contents that are one value per pane."""

    @property
    def _table(self) -> dict[Any, Any] | None:
        """The state's own table, if its values may be changed directly."""
        state = self.state
        return state.table if type(state) is HeapValueState and not state.is_shared else None

    def write(self, panes: Iterable[tuple[Any, ...]], rows: Iterable[Any]) -> None:
        table = self._table
        if table is not None:
            self.write_to_table(table, panes, rows)
            return
        listed = list(panes)
        distinct = list(map(NamespacedKey, dict.fromkeys(listed)))
        copy = {pane: value for pane, value in zip(distinct, self.state.get_many(distinct)) if value is not None}
        self.write_to_table(copy, listed, rows)
        self.state.put_many(distinct, list(map(copy.get, distinct)))

    @abstractmethod
    def write_to_table(self, table: dict[Any, Any], panes: Iterable[tuple[Any, ...]], rows: Iterable[Any]) -> None: ...

    def write_sliding(
        self,
        pairs: list[tuple[Any, int]],
        distinct: Iterable[tuple[Any, int]],
        rows: list[Any],
        size: int,
        slide: int,
        over: int,
    ) -> None:
        """Adds each row to all sliding windows that it is in.

        Each pane is represented by one cell meanwhile. Rows with the same pair share a list of cells. So a row needs
        one lookup, independent of the number of its windows.

        Args:
            pairs: (key, start of the latest window) of each row.
            distinct: the distinct pairs.
            size, slide: the length of the windows and the distance of their starts in ms.
            over: windows that start at or before this time are over and get no records.
        """
        cells_of: dict[Any, list[list[Any]]] = {}
        cell_of: dict[Any, list[Any]] = {}
        for pair in distinct:
            key, latest = pair
            cells = cells_of[pair] = []
            for start in range(latest, max(latest - size, over), -slide):
                pane = (key, start, start + size)
                cell = cell_of.get(pane)
                if cell is None:
                    cell = cell_of[NamespacedKey(pane)] = [None]
                cells.append(cell)
        table = self._table
        known = self.state.get_many(list(cell_of)) if table is None else map(table.get, cell_of)
        for (pane, cell), value in zip(cell_of.items(), known):
            if value is None:
                self.register(pane)
            else:
                cell[0] = value
        self.add_to_cells(map(cells_of.__getitem__, pairs), rows)
        if table is None:
            self.state.put_many(list(cell_of), [cell[0] for cell in cell_of.values()])
            return
        for pane, cell in cell_of.items():
            if cell[0] is None:
                table.pop(pane, None)
            else:
                table[pane] = cell[0]

    @abstractmethod
    def add_to_cells(self, cells_of_rows: Iterable[list[list[Any]]], rows: list[Any]) -> None:
        """Adds each row to the values of its cells. A cell with None has no value yet."""

    def clear(self, panes: list[NamespacedKey]) -> None:
        table = self._table
        if table is not None:
            for pane in panes:
                table.pop(pane, None)
        else:
            self.state.put_many(panes, [None] * len(panes))


class _Reducer(ValueWriter):
    def write_to_table(self, table: dict[Any, Any], panes: Iterable[tuple[Any, ...]], rows: Iterable[Any]) -> None:
        assert isinstance(self.contents, ReducedValue)
        get, register, reduce = table.get, self.register, self.contents.reduce
        if isinstance(reduce, RollingReduce):
            rows = list(rows)
            reduce = reduce.for_batch(rows) if rows else reduce
        for pane, value in zip(panes, rows):
            known = get(pane)
            if known is not None:
                value = reduce(known, value)
            else:
                pane = NamespacedKey(pane)
                register(pane)
            if value is None:
                table.pop(pane, None)
            else:
                table[pane] = value

    def add_to_cells(self, cells_of_rows: Iterable[list[list[Any]]], rows: list[Any]) -> None:
        assert isinstance(self.contents, ReducedValue)
        reduce = self.contents.reduce
        if isinstance(reduce, RollingReduce):
            reduce = reduce.for_batch(rows)
        for cells, value in zip(cells_of_rows, rows):
            for cell in cells:
                known = cell[0]
                cell[0] = value if known is None else reduce(known, value)

    def read(self, panes: list[NamespacedKey], is_kept: bool) -> list[list[Any] | None]:
        return [None if value is None else [value] for value in self.state.get_many(panes)]


class _Aggregator(ValueWriter):
    def write_to_table(self, table: dict[Any, Any], panes: Iterable[tuple[Any, ...]], rows: Iterable[Any]) -> None:
        assert isinstance(self.contents, Accumulator)
        function = self.contents.function
        get, register, create, add = table.get, self.register, function.create_accumulator, function.add
        for pane, value in zip(panes, rows):
            accumulator = get(pane)
            if accumulator is None:
                pane = NamespacedKey(pane)
                register(pane)
                accumulator = create()
            accumulator = add(value, accumulator)
            if accumulator is None:
                table.pop(pane, None)
            else:
                table[pane] = accumulator

    def add_to_cells(self, cells_of_rows: Iterable[list[list[Any]]], rows: list[Any]) -> None:
        assert isinstance(self.contents, Accumulator)
        create, add = self.contents.function.create_accumulator, self.contents.function.add
        for cells, value in zip(cells_of_rows, rows):
            for cell in cells:
                accumulator = cell[0]
                cell[0] = add(value, create() if accumulator is None else accumulator)

    def read(self, panes: list[NamespacedKey], is_kept: bool) -> list[list[Any] | None]:
        assert isinstance(self.contents, Accumulator)
        function = self.contents.function
        return [
            None if accumulator is None else result_of(function, accumulator, is_kept)
            for accumulator in self.state.get_many(panes)
        ]


class _Collector(PaneWriter):
    """Writes contents that are lists of records."""

    def write(self, panes: Iterable[tuple[Any, ...]], rows: Iterable[Any]) -> None:
        state, register = self.state, self.register
        if type(state) is HeapListState and not state.is_shared:
            table = state.table
            get = table.get
            for pane, value in zip(panes, rows):
                known = get(pane)
                if known is None:
                    new = NamespacedKey(pane)
                    register(new)
                    table[new] = [value]
                else:
                    known.append(value)
            return
        added: dict[Any, list[Any]] = {}
        for pane, value in zip(panes, rows):
            added.setdefault(pane, []).append(value)
        context = self.contents.context
        for pane, values in added.items():
            context.key = new = NamespacedKey(pane)
            register(new)
            state.add_all(values)

    def read(self, panes: list[NamespacedKey], is_kept: bool) -> list[list[Any] | None]:
        return list(map(self.contents.get, panes))

    def clear(self, panes: list[NamespacedKey]) -> None:
        for pane in panes:
            self.contents.clear(pane)


def pane_writer(contents: WindowContents, register: Register) -> PaneWriter:
    if isinstance(contents, ReducedValue):
        return _Reducer(contents, register)
    if isinstance(contents, Accumulator):
        return _Aggregator(contents, register)
    assert type(contents) is AllRecords, contents
    return _Collector(contents, register)
