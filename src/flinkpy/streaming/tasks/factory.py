"""Creates the kind of task that runs a vertex."""

from __future__ import annotations

from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.input_stream_task import InputStreamTask
from flinkpy.streaming.tasks.source_stream_task import SourceStreamTask
from flinkpy.streaming.tasks.stream_task import StreamTask


def create_stream_task(environment: TaskEnvironment) -> StreamTask:
    """Returns the task of `environment.vertex`. It loads no user code before `invoke`."""
    if environment.vertex.inputs:
        return InputStreamTask(environment)
    return SourceStreamTask(environment)
