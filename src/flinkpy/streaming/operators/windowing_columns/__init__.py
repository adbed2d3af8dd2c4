"""Windows over columns: built-in aggregates per window, without a Python object per record."""
