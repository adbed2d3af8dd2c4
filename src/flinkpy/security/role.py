"""What the holder of a token may do."""

from __future__ import annotations

import enum


class Role(enum.IntEnum):
    """Ordered: who may do more may do all that comes before. Which call needs which: `rpc/authorization.py`."""

    #: Look: lists, details, statistics, health. Changes nothing and runs no code.
    READ = 1
    #: What a client does: submit jobs (which runs code), cancel, savepoints, shut the cluster down.
    SUBMIT = 2
    #: What the services of a cluster say to each other.
    CLUSTER = 3

    @property
    def label(self) -> str:
        """Its name on the command line and in messages."""
        return self.name.lower()
