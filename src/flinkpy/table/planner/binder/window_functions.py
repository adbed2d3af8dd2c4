"""Window table-valued functions (TUMBLE, HOP, CUMULATE, SESSION in FROM) and legacy group windows (in GROUP BY)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import InputRef, Literal, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.scope import Relation, Scope
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder

#: The names of the arguments after DATA and TIMECOL, and how many of them are required.
WINDOW_FUNCTIONS: dict[str, tuple[tuple[str, ...], int]] = {
    "TUMBLE": (("SIZE", "OFFSET"), 1),
    "HOP": (("SLIDE", "SIZE", "OFFSET"), 2),
    "CUMULATE": (("STEP", "SIZE", "OFFSET"), 2),
    "SESSION": (("GAP",), 1),
}


def bind_window_function(queries: QueryBinder, outer: Scope | None, call: ast.FunctionCall) -> rel.RelNode:
    """Returns the plan of a window table-valued function. Raises: ValidationError if its arguments do not fit."""
    kind = call.function
    names, required = WINDOW_FUNCTIONS[kind]
    arguments = _named(call, ("DATA", "TIMECOL", *names))
    missing = [name for name in ("DATA", "TIMECOL", *names[:required]) if name not in arguments]
    if missing:
        raise invalid(call, f"{kind} needs the argument {missing[0]}: {_usage(kind)}")
    table = arguments["DATA"]
    if not isinstance(table, ast.TableArgument):
        raise invalid(table, f"the first argument of {kind} must be a table: {_usage(kind)}")
    plan = queries.bind(table.query, outer)
    time_column = _time_column(queries, arguments["TIMECOL"], plan, kind)
    scope = queries.scope([Relation((), plan.names, 0, plan.row_type)], None)
    binder = ExpressionBinder(queries, scope)
    sizes = {
        name: interval_millis(binder.bind(arguments[name]), arguments[name], kind, is_offset=name == "OFFSET")
        for name in names
        if name in arguments
    }
    partition = []
    for each in table.partition_by:
        key = binder.bind(each)
        if not isinstance(key, InputRef):
            raise invalid(each, f"PARTITION BY of {kind} must name columns")
        partition.append(key.index)
    if partition and kind != "SESSION":
        raise invalid(table, f"PARTITION BY is supported for SESSION only, not for {kind}")
    slide = sizes.get("SLIDE", sizes.get("STEP", 0))
    size = sizes.get("SIZE", sizes.get("GAP", 0))
    if kind == "CUMULATE" and size % slide:
        raise invalid(
            call,
            f"CUMULATE table function based aggregate requires maxSize must be an integral multiple of step, but got "
            f"maxSize {size} ms and step {slide} ms",
        )
    is_zoned = isinstance(plan.type_of(time_column), lt.LocalZonedTimestampType)
    window = rel.Window(kind, size, slide, sizes.get("OFFSET", 0), tuple(partition), is_zoned)
    return rel.WindowTableFunction(plan, window, time_column)


def _named(call: ast.FunctionCall, names: tuple[str, ...]) -> dict[str, ast.Expression]:
    found: dict[str, ast.Expression] = {}
    for place, argument in enumerate(call.arguments):
        if isinstance(argument, ast.NamedArgument):
            name = argument.name.last.upper()
            if name not in names:
                raise invalid(argument, f"{call.function} has no argument {name}{did_you_mean(name, names)}")
            found[name] = argument.value
        elif place < len(names):
            found[names[place]] = argument
        else:
            raise invalid(argument, f"{call.function} has at most {len(names)} arguments: {_usage(call.function)}")
    return found


def _usage(kind: str) -> str:
    intervals = {"TUMBLE": "size [, offset]", "HOP": "slide, size [, offset]", "CUMULATE": "step, size [, offset]"}
    return f"{kind}(TABLE table_name, DESCRIPTOR(timecol), {intervals.get(kind, 'gap')})"


def _time_column(queries: QueryBinder, node: ast.Expression, plan: rel.RelNode, kind: str) -> int:
    if not isinstance(node, ast.Descriptor) or len(node.columns) != 1:
        raise invalid(node, f"the second argument of {kind} must be a DESCRIPTOR of one column: {_usage(kind)}")
    name = node.columns[0].name
    if name.last not in plan.names:
        raise invalid(name, f"Unknown identifier '{name.last}'{did_you_mean(name.last, plan.names)}")
    place = plan.names.index(name.last)
    time_type = plan.type_of(place)
    is_fine = (
        lt.is_time_attribute(time_type)
        if queries.context.is_streaming
        else isinstance(time_type, (lt.TimestampType, lt.LocalZonedTimestampType))
    )
    if not is_fine:
        raise invalid(
            node,
            f"The window function {_usage(kind)} requires the timecol is a time attribute type, but is {time_type}.",
        )
    return place


def interval_millis(value: RexNode, node: ast.Node, kind: str, *, is_offset: bool = False) -> int:
    """Returns the milliseconds of a constant interval of a window. Raises: ValidationError for anything else."""
    if not isinstance(value, Literal) or not isinstance(value.type, lt.DayTimeIntervalType):
        raise invalid(node, f"the sizes of {kind} must be constant intervals of days to seconds, not {value.type}")
    if value.value <= 0 and not is_offset:
        raise invalid(node, f"the sizes of {kind} must be positive")
    return int(value.value)
