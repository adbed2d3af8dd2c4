"""Windows over columns: built-in aggregates of windows without a Python object per record."""
