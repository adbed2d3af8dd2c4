"""Operators in batch mode: their input is bounded, and is complete before they begin.

What makes them different is kept in this folder: a shuffle that keeps its data on disk would replace the sorting in
memory, and the other operators would not notice. See docs/batch.md.
"""
