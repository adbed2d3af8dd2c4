"""Expressions over columns: trees of plain data, their types, and their evaluation with Arrow."""
