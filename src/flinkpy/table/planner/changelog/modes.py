"""ModifyKind and UpdateKind: which changes flow along an edge of a plan.

Source: org.apache.flink.table.planner.plan.trait.{ModifyKindSet, UpdateKind}.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from flinkpy.common.types import RowKind
from flinkpy.table.connectors.changelog_mode import ChangelogMode


class ModifyKind(enum.Enum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class UpdateKind(enum.Enum):
    """How updates are sent: not at all, as UPDATE_AFTER only, or as UPDATE_BEFORE and UPDATE_AFTER."""

    NONE = "NONE"
    ONLY_UPDATE_AFTER = "ONLY_UPDATE_AFTER"
    BEFORE_AND_AFTER = "BEFORE_AND_AFTER"


INSERT_ONLY = frozenset({ModifyKind.INSERT})
ALL_CHANGES = frozenset(ModifyKind)


def modify_kinds_of(mode: ChangelogMode) -> frozenset[ModifyKind]:
    """Returns the kinds of changes of a connector."""
    kinds = set()
    if mode.contains(RowKind.INSERT):
        kinds.add(ModifyKind.INSERT)
    if mode.contains(RowKind.UPDATE_AFTER) or mode.contains(RowKind.UPDATE_BEFORE):
        kinds.add(ModifyKind.UPDATE)
    if mode.contains(RowKind.DELETE):
        kinds.add(ModifyKind.DELETE)
    return frozenset(kinds)


def update_kind_of(mode: ChangelogMode) -> UpdateKind:
    """Returns how a connector sends or takes updates."""
    if not mode.contains(RowKind.UPDATE_AFTER):
        return UpdateKind.NONE
    return UpdateKind.BEFORE_AND_AFTER if mode.contains(RowKind.UPDATE_BEFORE) else UpdateKind.ONLY_UPDATE_AFTER


def changelog_mode(kinds: Iterable[ModifyKind], update: UpdateKind | None = None) -> ChangelogMode:
    """Returns the row kinds; updates with UPDATE_BEFORE unless `update` says otherwise."""
    rows = set()
    for kind in kinds:
        if kind is ModifyKind.INSERT:
            rows.add(RowKind.INSERT)
        elif kind is ModifyKind.DELETE:
            rows.add(RowKind.DELETE)
        else:
            rows.add(RowKind.UPDATE_AFTER)
            if update in (None, UpdateKind.BEFORE_AND_AFTER):
                rows.add(RowKind.UPDATE_BEFORE)
    return ChangelogMode(frozenset(rows))


def before_after_or_none(kinds: frozenset[ModifyKind]) -> UpdateKind:
    return UpdateKind.BEFORE_AND_AFTER if ModifyKind.UPDATE in kinds else UpdateKind.NONE


def only_after_or_none(kinds: frozenset[ModifyKind]) -> UpdateKind:
    return UpdateKind.ONLY_UPDATE_AFTER if ModifyKind.UPDATE in kinds else UpdateKind.NONE


def mode_text(kinds: frozenset[ModifyKind], update: UpdateKind) -> str:
    """Returns the mode as plans show it: `I,UB,UA,D`."""
    parts = []
    if ModifyKind.INSERT in kinds:
        parts.append("I")
    if ModifyKind.UPDATE in kinds:
        parts += ["UB", "UA"] if update is UpdateKind.BEFORE_AND_AFTER else ["UA"]
    if ModifyKind.DELETE in kinds:
        parts.append("D")
    return ",".join(parts) or "NONE"
