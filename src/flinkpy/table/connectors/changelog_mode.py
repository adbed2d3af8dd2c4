"""ChangelogMode: the kinds of changes that a source sends or a sink takes.

Source: org.apache.flink.table.connector.ChangelogMode.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.types import RowKind


@dataclass(frozen=True, slots=True)
class ChangelogMode:
    """A set of row kinds.

    Attributes:
        key_only_deletes: True if deletions may have only the key columns filled.
    """

    kinds: frozenset[RowKind]
    key_only_deletes: bool = False

    @staticmethod
    def of(*kinds: RowKind) -> ChangelogMode:
        return ChangelogMode(frozenset(kinds))

    @staticmethod
    def insert_only() -> ChangelogMode:
        return INSERT_ONLY

    @staticmethod
    def upsert(key_only_deletes: bool = True) -> ChangelogMode:
        """Returns the mode of a stream of INSERT, UPDATE_AFTER and DELETE by key."""
        return ChangelogMode(UPSERT.kinds, key_only_deletes)

    @staticmethod
    def all() -> ChangelogMode:
        return ALL

    def contains(self, kind: RowKind) -> bool:
        return kind in self.kinds

    def contains_only(self, kind: RowKind) -> bool:
        return self.kinds == {kind}

    def __str__(self) -> str:
        short = {RowKind.INSERT: "I", RowKind.UPDATE_BEFORE: "UB", RowKind.UPDATE_AFTER: "UA", RowKind.DELETE: "D"}
        return ",".join(text for kind, text in short.items() if kind in self.kinds)


INSERT_ONLY = ChangelogMode(frozenset({RowKind.INSERT}))
UPSERT = ChangelogMode(frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}))
ALL = ChangelogMode(frozenset(RowKind))
