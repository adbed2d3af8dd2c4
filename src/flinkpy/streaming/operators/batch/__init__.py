"""Operators for batch mode, in which inputs are bounded.

This package has only the operators that differ from streaming mode. The package `streaming/sort/` sorts data that does
not fit in memory. See docs/batch.md.
"""
