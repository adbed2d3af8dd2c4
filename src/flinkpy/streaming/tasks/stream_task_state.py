"""StreamTaskState: the states of a StreamTask. The diagram is in `stream_task`."""

from __future__ import annotations

import enum


class StreamTaskState(enum.Enum):
    CREATED = "CREATED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    FINISHING = "FINISHING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (StreamTaskState.FINISHED, StreamTaskState.CANCELED, StreamTaskState.FAILED)


_S = StreamTaskState
TRANSITIONS = frozenset(
    {
        (_S.CREATED, _S.INITIALIZING),
        (_S.INITIALIZING, _S.RUNNING),
        (_S.RUNNING, _S.FINISHING),
        (_S.RUNNING, _S.SUSPENDED),
        (_S.SUSPENDED, _S.FINISHING),
        (_S.FINISHING, _S.FINISHED),
        *((state, end) for state in list(_S)[:5] for end in (_S.CANCELED, _S.FAILED)),
    }
)
