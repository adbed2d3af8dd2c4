"""LiveTable: a table whose readers get only the cells that changed since they last asked.

The page of a job with hundreds of subtasks asks every few seconds, and most cells are then as they were. A table has
one row per vertex or subtask. Its cells remember the revision in which they changed; a reader names the revision that
it knows. So there is no state per reader, and a thousand readers cost as much as one.

Pure. Thread: any one at a time.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec

Cell = int | float | str | None
#: Above this share of changed cells a column is sent whole: each changed cell takes its row number with it.
_MAX_SPARSE_SHARE = 0.4
#: Tables that are kept: those of a job, and of each of its vertices that somebody looks at. One of 300 subtasks with
#: twenty columns takes about 100 kB.
MAX_TABLES = 64


class SparseColumn(msgspec.Struct, kw_only=True):
    """The cells of a column that changed, with their rows."""

    rows: list[int]
    values: list[Cell]


#: All cells of a column, or those that changed.
ColumnChange = list[Cell] | SparseColumn


class LiveTable:
    """The latest content of a table, and when each cell changed.

    Attributes:
        epoch: names this table. A reader that names another one gets everything.
        revision: counts the updates.
    """

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self.revision = 0
        self._row_keys: list[Hashable] = []
        self._columns: dict[str, list[Cell]] = {}
        self._changed: dict[str, list[int]] = {}
        #: The revision in which rows or columns came or went. Who knows only what was before gets everything.
        self._rebuilt = 0

    @property
    def version(self) -> str:
        return f"{self.epoch}-{self.revision}"

    def update(self, row_keys: Sequence[Hashable], columns: Mapping[str, Sequence[Cell]]) -> None:
        """Takes the new content. Every column has a cell for each row."""
        self.revision += 1
        if list(row_keys) != self._row_keys or columns.keys() != self._columns.keys():
            self._row_keys = list(row_keys)
            self._columns = {name: list(cells) for name, cells in columns.items()}
            self._changed = {name: [self.revision] * len(cells) for name, cells in columns.items()}
            self._rebuilt = self.revision
            return
        for name, cells in columns.items():
            before, changed = self._columns[name], self._changed[name]
            for row, cell in enumerate(cells):
                if cell != before[row]:
                    before[row] = cell
                    changed[row] = self.revision

    def changes(self, version: str | None) -> tuple[bool, dict[str, ColumnChange]]:
        """Returns whether the reader gets everything, and the columns with what changed after `version`."""
        known = self._known_revision(version)
        if known is None or known < self._rebuilt:
            return True, {name: list(cells) for name, cells in self._columns.items()}
        changes: dict[str, ColumnChange] = {}
        for name, changed in self._changed.items():
            rows = [row for row, revision in enumerate(changed) if revision > known]
            if not rows:
                continue
            cells = self._columns[name]
            if len(rows) > len(cells) * _MAX_SPARSE_SHARE:
                changes[name] = list(cells)
            else:
                changes[name] = SparseColumn(rows=rows, values=[cells[row] for row in rows])
        return False, changes

    def _known_revision(self, version: str | None) -> int | None:
        """Returns the revision that a reader knows; None if it knows none of this table."""
        epoch, _, revision = (version or "").partition("-")
        if epoch != self.epoch or not (revision.isascii() and revision.isdigit() and len(revision) <= 15):
            return None
        return int(revision) if int(revision) <= self.revision else None


class LiveTables:
    """The tables that somebody has asked for lately."""

    def __init__(self) -> None:
        #: With the answers from which each table was updated last, in the order of their use.
        self._tables: OrderedDict[Hashable, tuple[LiveTable, Sequence[Any]]] = OrderedDict()

    def updated(
        self,
        key: Hashable,
        answers: Sequence[Any],
        content: Callable[[], tuple[Sequence[Hashable], Mapping[str, Sequence[Cell]]]],
    ) -> LiveTable:
        """Returns a table whose content is made from the answers of services.

        Args:
            key: what the table shows.
            answers: the answers. Those of the last call, the same objects, leave the table as it is.
            content: returns the keys of the rows and the columns.
        """
        table, seen = self._tables.get(key) or (LiveTable(), ())
        if len(seen) != len(answers) or any(one is not other for one, other in zip(seen, answers)):
            table.update(*content())
        self._tables[key] = (table, answers)
        self._tables.move_to_end(key)
        while len(self._tables) > MAX_TABLES:
            self._tables.popitem(last=False)
        return table
