"""Decides whether rows for a sink must be brought into an order by its primary key, and checks ON CONFLICT.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkChangelogModeInferenceProgram
(analyzeUpsertMaterializeStrategy).
"""

from __future__ import annotations

from flinkpy.common.errors import ValidationError
from flinkpy.common.types import RowKind
from flinkpy.table.planner.changelog.keys import upsert_keys
from flinkpy.table.planner.changelog.modes import INSERT_ONLY, changelog_mode
from flinkpy.table.planner.physical import nodes as ph


def materializes(node: ph.Sink, strategy: str, *, require_on_conflict: bool) -> bool:
    """True if several rows of the input may have one primary key of an upsert sink, so that they must be put in order.

    Args:
        node: the sink, whose input has its kinds of changes.
        strategy: `table.exec.sink.upsert-materialize`.
        require_on_conflict: True to refuse such an INSERT without ON CONFLICT.

    Raises: ValidationError if ON CONFLICT is missing or not possible.
    """
    kinds = node.input.modify_kinds
    mode = node.sink.changelog_mode(changelog_mode(kinds))
    is_append, is_retract = mode.contains_only(RowKind.INSERT), mode.contains(RowKind.UPDATE_BEFORE)
    if node.on_conflict is not None:
        _check_clause(node, is_append=is_append, is_retract=is_retract)
    if not node.primary_key or strategy == "NONE":
        return False
    if strategy == "FORCE":
        return not is_retract
    if is_append or is_retract:
        return False
    if kinds == INSERT_ONLY and node.on_conflict == "DEDUPLICATE":
        # An insert replaces the row of its key in the sink.
        return False
    if any(key <= frozenset(node.primary_key) for key in upsert_keys(node.input)):
        return False
    if require_on_conflict and node.on_conflict is None:
        raise _missing_clause(node)
    # Rows that are only inserted need no order. Their conflicts are only looked for if the statement asks for it.
    return kinds != INSERT_ONLY or node.on_conflict is not None


def _check_clause(node: ph.Sink, *, is_append: bool, is_retract: bool) -> None:
    if is_append or is_retract:
        reason = (
            "it only accepts INSERT (append-only) changes" if is_append else "it requires UPDATE_BEFORE (retract mode)"
        )
        raise ValidationError(
            f"ON CONFLICT clause is only allowed for upsert sinks. The sink '{node.table_name}' is not an upsert sink "
            f"because {reason}."
        )
    if node.on_conflict == "DEDUPLICATE":
        return
    scans = [each for each in ph.walk(node) if isinstance(each, ph.TableSourceScan)]
    names = [
        each.table.identifier.as_summary_string() for each in scans if each.table.resolved_schema.watermark is None
    ]
    if names:
        raise ValidationError(
            f"ON CONFLICT DO {node.on_conflict} requires all source tables to define watermarks, but the following "
            f"source(s) do not: {', '.join(dict.fromkeys(names))}. Please add a WATERMARK declaration to these tables."
        )


def _missing_clause(node: ph.Sink) -> ValidationError:
    columns = node.sink_row_type.names if node.sink_row_type is not None else node.names
    primary = f"[{', '.join(columns[each] for each in node.primary_key)}]"
    keys = sorted(tuple(sorted(each)) for each in upsert_keys(node.input))
    upsert = ", ".join(f"[{', '.join(node.input.names[each] for each in key)}]" for key in keys) or "none"
    return ValidationError(
        f"The query has an upsert key that differs from the primary key of the sink table '{node.table_name}'. Primary "
        f"key: {primary}, upsert key: {upsert}. This can lead to non-deterministic results when multiple records with "
        "different upsert keys map to the same primary key. Please specify an ON CONFLICT clause to define how "
        "conflicts should be handled: ON CONFLICT DO DEDUPLICATE (update to the latest record, state intensive, since "
        "we need to keep the entire history), or ON CONFLICT DO ERROR (fail on conflict), or ON CONFLICT DO NOTHING "
        "(keep first record)."
    )
