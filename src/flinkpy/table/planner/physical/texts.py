"""How plans show the parts of physical nodes: aggregates and windows."""

from __future__ import annotations

from flinkpy.sql.rex import AggregateCall
from flinkpy.table.planner.binder.literals import interval_text
from flinkpy.table.planner.logical.nodes import Window


def distinct_views(calls: tuple[AggregateCall, ...]) -> list[tuple[int, ...]]:
    """Returns the arguments of distinct aggregates. Those with the same arguments share their values."""
    return list(dict.fromkeys(call.arguments for call in calls if call.is_distinct))


def call_text(
    call: AggregateCall,
    names: tuple[str, ...],
    retracts: bool = False,
    views: list[tuple[int, ...]] | None = None,
) -> str:
    """Returns an aggregate as plans show it: `COUNT(DISTINCT a) FILTER f`.

    Args:
        views: `distinct_views` of the phases of an aggregation, which show their numbers instead of DISTINCT.
    """
    function = f"{call.function}_RETRACT" if retracts else call.function
    arguments = ", ".join(names[each] for each in call.arguments) or "*"
    distinct = "DISTINCT " if call.is_distinct else ""
    if distinct and views is not None:
        distinct = f"distinct${views.index(call.arguments)} "
    chosen = "" if call.filter_index is None else f" FILTER {names[call.filter_index]}"
    return f"{function}({distinct}{arguments}){chosen}"


def window_text(window: Window, columns: str, names: tuple[str, ...] = ()) -> str:
    """Returns a window as plans show it, such as `HOP(time_col=[t], size=[10 s], slide=[2 s])`.

    Args:
        names: the names of the columns, for the partition keys of SESSION.
    """
    parts = [columns]
    if window.kind == "CUMULATE":
        parts += [f"max_size=[{interval_text(window.size_ms)}]", f"step=[{interval_text(window.slide_ms)}]"]
    elif window.kind == "SESSION":
        parts.append(f"gap=[{interval_text(window.size_ms)}]")
        if window.partition and names:
            parts.append(f"partition keys=[{', '.join(names[each] for each in window.partition)}]")
    else:
        parts.append(f"size=[{interval_text(window.size_ms)}]")
        if window.slide_ms:
            parts.append(f"slide=[{interval_text(window.slide_ms)}]")
    if window.offset_ms:
        parts.append(f"offset=[{interval_text(window.offset_ms)}]")
    return f"{window.kind}({', '.join(parts)})"


def together(names: tuple[str, ...]) -> str:
    """Returns the names of the accumulators of one aggregate."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
