"""Bodies of the operations that the dashboard polls. They are flinkpy's own."""

from __future__ import annotations

import msgspec

from flinkpy.rest.live_table import ColumnChange


class LiveJob(msgspec.Struct, kw_only=True):
    """The changes of a job: a row per vertex, in the order of `GET /jobs/:jobid`.

    Columns are `status`, the number of tasks in a state (`tasks.RUNNING`), shares of the time of the subtasks in
    percent (`busy`, `backPressured`, `idle`: the mean; `busyMax`, `backPressuredMax`: of the worst subtask), totals
    since the start (`recordsIn`, `recordsOut`, `bytesIn`, `bytesOut`), rates in records per second (`recordsInRate`,
    `recordsOutRate`), and `watermark` and `watermarkMax` over the subtasks. null: not known.
    """

    #: Given back as `since`.
    version: str
    #: The columns are complete, and rows that the reader knows are void.
    full: bool
    now: int
    #: How old the values are, in ms.
    age: int
    state: str
    columns: dict[str, ColumnChange]


class LiveVertex(msgspec.Struct, kw_only=True):
    """The changes of a vertex: a row per subtask.

    Columns are `status`, `attempt`, `endpoint`, `taskManager`, `start`, `end`, `busy`, `backPressured`, `idle`,
    `recordsIn`, `recordsOut`, `bytesIn`, `bytesOut`, `recordsInRate`, `recordsOutRate` and `watermark`.
    """

    version: str
    full: bool
    now: int
    age: int
    columns: dict[str, ColumnChange]
