"""Operators in batch mode: their input is bounded, and is complete before they begin.

What makes them different is kept in this folder; sorting what does not fit in memory is `streaming/sort/`. See
docs/batch.md.
"""
