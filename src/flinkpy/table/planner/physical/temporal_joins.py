"""Checks that the right table of an event-time temporal join is versioned: it has a primary key and an event time.

Source: org.apache.flink.table.planner.plan.rules.logical.{TemporalJoinRewriteWithUniqueKeyRule,
LogicalCorrelateToJoinFromTemporalTableJoinRule}.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types.logical_types import is_rowtime
from flinkpy.table.planner.changelog.keys import smallest, upsert_keys
from flinkpy.table.planner.physical import nodes as ph


def versions_time(left: ph.PhysicalNode, right: ph.PhysicalNode, left_time: int) -> int:
    """Returns the column with the event time of the versioned table.

    Raises: ValidationError if it has none, or one of another type than that of the left table.
    """
    fields = right.row_type.fields
    right_time = next((place for place, each in enumerate(fields) if is_rowtime(each.type)), None)
    if right_time is None:
        raise ValidationError(
            "Event-Time Temporal Table Join requires both primary key and row time attribute in versioned table, but "
            "no row time attribute can be found."
        )
    of_left, of_right = left.row_type.fields[left_time].type, fields[right_time].type
    if type(of_left) is not type(of_right):
        raise ValidationError(
            "Event-Time Temporal Table Join requires same rowtime type in left table and versioned table, but the "
            f"rowtime types are {of_left.as_nullable()} and {of_right.as_nullable()}."
        )
    return right_time


def check_version_keys(
    left: ph.PhysicalNode, right: ph.PhysicalNode, pairs: Sequence[tuple[int, int]], key_of_function: int | None = None
) -> None:
    """Checks that the join key contains a key of the versioned table.

    Args:
        pairs: the columns of the left and of the right table that the join compares.
        key_of_function: the key of a temporal table function, whose table is only appended to.

    Raises: ValidationError otherwise.
    """
    if not pairs:
        raise ValidationError("Currently the join key in Temporal Table Join can not be empty.")
    keys = upsert_keys(right) if key_of_function is None else frozenset({frozenset({key_of_function})})
    key = smallest(keys)
    if key is None:
        raise ValidationError(
            "Temporal Table Join requires primary key in versioned table, but no primary key can be found. The "
            f"versioned table is: {right.description()}"
        )
    compared = {column for _, column in pairs}
    if not any(each <= compared for each in keys):
        names = ",".join(right.names[column] for column in key)
        condition = ",".join(f"{left.names[a]}={right.names[b]}" for a, b in pairs)
        raise ValidationError(
            f"Temporal table's primary key [{names}] must be included in the equivalence condition of temporal join, "
            f"but current temporal join condition is [{condition}]."
        )
