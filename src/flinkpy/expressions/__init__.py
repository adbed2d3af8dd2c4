"""Expressions over columns: trees of plain data, their types, and what computes them with Arrow."""
