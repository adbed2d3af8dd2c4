"""Stream tasks: one runs one subtask of a job vertex.

`create_stream_task(environment)` makes the task; `task.invoke()` runs it on the calling thread to its end.
"""

from flinkpy.streaming.tasks.factory import create_stream_task
from flinkpy.streaming.tasks.stream_task import CancelTaskError, StreamTask
from flinkpy.streaming.tasks.stream_task_state import StreamTaskState

__all__ = ["CancelTaskError", "StreamTask", "StreamTaskState", "create_stream_task"]
