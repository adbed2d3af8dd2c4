"""Sorts and queues records that do not fit in memory, with spill files of the task.

The operators in `streaming/operators/batch/` use it.
"""
