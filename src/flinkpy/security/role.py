"""The roles of callers."""

from __future__ import annotations

import enum


class Role(enum.IntEnum):
    """A role includes all lower roles. `rpc/authorization.py` lists the role that each call needs."""

    #: Reads lists, details, statistics and health. Changes nothing and runs no code.
    READ = 1
    #: Calls of clients: submits jobs (which runs code), cancels them, takes savepoints, shuts the cluster down.
    SUBMIT = 2
    #: Calls between the services of a cluster.
    CLUSTER = 3

    @property
    def label(self) -> str:
        """The name on the command line and in messages."""
        return self.name.lower()
