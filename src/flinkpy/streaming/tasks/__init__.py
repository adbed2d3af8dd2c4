"""Stream tasks. Each runs one subtask of a job vertex.

`create_stream_task(environment)` creates the task; `task.invoke()` runs it to its end on the calling thread.
"""

from __future__ import annotations

from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.input_stream_task import InputStreamTask
from flinkpy.streaming.tasks.source_stream_task import SourceStreamTask
from flinkpy.streaming.tasks.stream_task import CancelTaskError, StreamTask, StreamTaskState

__all__ = ["CancelTaskError", "StreamTask", "StreamTaskState", "create_stream_task"]


def create_stream_task(environment: TaskEnvironment) -> StreamTask:
    """Returns the task that runs `environment.vertex`. It loads no user code before `invoke`."""
    if environment.vertex.inputs:
        return InputStreamTask(environment)
    return SourceStreamTask(environment)
