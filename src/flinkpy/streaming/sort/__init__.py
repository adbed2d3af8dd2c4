"""Sorting and keeping more than fits in memory: runs and queues of records that go to files of the task.

Nothing here knows of operators; see `streaming/operators/batch/` for those that use it.
"""
