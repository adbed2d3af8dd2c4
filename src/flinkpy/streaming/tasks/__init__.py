"""Stream tasks. Each runs one subtask of a job vertex.

`create_stream_task(environment)` creates the task; `task.invoke()` runs it to its end on the calling thread.
"""

from flinkpy.streaming.tasks.factory import create_stream_task
from flinkpy.streaming.tasks.stream_task import CancelTaskError, StreamTask
from flinkpy.streaming.tasks.stream_task_state import StreamTaskState

__all__ = ["CancelTaskError", "StreamTask", "StreamTaskState", "create_stream_task"]
