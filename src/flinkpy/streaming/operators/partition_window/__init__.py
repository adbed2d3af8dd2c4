"""Operators over all records of a subtask, which give their results when the input ends."""
