"""Operators over all records of a subtask. They emit their results at the end of the input."""
