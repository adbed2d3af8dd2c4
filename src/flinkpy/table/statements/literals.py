"""Literals in the text of statements that the session itself writes."""

from __future__ import annotations

from flinkpy.sql.types.logical_types import CharType, LogicalType, VarCharType


def text_literal(text: str) -> str:
    """Returns a text in quotes."""
    return "'" + text.replace("'", "''") + "'"


def literal_of(text: str, kind: LogicalType) -> str:
    """Returns the literal of a partition's value, which catalogs and directories have as text."""
    literal = text_literal(text)
    return literal if isinstance(kind, (CharType, VarCharType)) else f"CAST({literal} AS {kind.as_nullable()})"
