"""SharedStateRegistry: the checkpoints that use each shared file. Pure.

A file may be deleted when no complete or pending checkpoint uses it, and only if the job owns it. Files of a savepoint
that the job has not claimed are never deleted.

Source: org.apache.flink.runtime.state.SharedStateRegistry.
Differs: Flink keeps the newest checkpoint that uses a file and frees files in order. This registry keeps all users, so
checkpoints may end in any order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

#: The number of freed paths that are remembered, which is far more than the shared files of a few checkpoints.
_MAX_FREED = 1 << 16


class SharedStateRegistry:
    """The users of shared files. Thread: any; each call is atomic.

    Invariant: `_users` maps each used path to exactly the checkpoints that use it.
    """

    def __init__(self) -> None:
        self._users: dict[str, set[int]] = {}
        self._used_by: dict[int, set[str]] = {}
        self._foreign: set[str] = set()
        self._freed: set[str] = set()
        self._freed_order: deque[str] = deque()
        self._lock = threading.Lock()

    def register(self, checkpoint_id: int, paths: Iterable[str], *, is_owned: bool = True) -> None:
        """Registers a checkpoint as user of these files, in addition to its other files. Idempotent."""
        with self._lock:
            used = self._used_by.setdefault(checkpoint_id, set())
            for path in paths:
                used.add(path)
                self._users.setdefault(path, set()).add(checkpoint_id)
                if not is_owned:
                    self._foreign.add(path)

    def unregister(self, checkpoint_id: int) -> list[str]:
        """Removes a checkpoint. Returns the files that may be deleted now. Each file is returned only once."""
        with self._lock:
            freed = []
            for path in self._used_by.pop(checkpoint_id, ()):
                users = self._users[path]
                users.discard(checkpoint_id)
                if not users:
                    del self._users[path]
                    if path not in self._foreign:
                        freed.append(path)
            self._remember(freed)
            return sorted(freed)

    def deletable(self, paths: Iterable[str]) -> list[str]:
        """Returns the paths that the job owns and no checkpoint uses. The caller deletes them."""
        with self._lock:
            freed = sorted({path for path in paths if path not in self._users and path not in self._foreign})
            self._remember(freed)
            return freed

    def freed(self, paths: Iterable[str]) -> list[str]:
        """Returns the paths that were returned as deletable before, so they may have been deleted.

        A task that does not know the last complete checkpoint yet may use files of a deleted one.
        """
        with self._lock:
            return sorted(self._freed.intersection(paths))

    def is_used(self, path: str) -> bool:
        with self._lock:
            return path in self._users

    def users_of(self, path: str) -> frozenset[int]:
        with self._lock:
            return frozenset(self._users.get(path, ()))

    def _remember(self, freed: Iterable[str]) -> None:
        for path in freed:
            if path not in self._freed:
                self._freed.add(path)
                self._freed_order.append(path)
        while len(self._freed_order) > _MAX_FREED:
            self._freed.discard(self._freed_order.popleft())

    def validate(self) -> None:
        """Asserts the invariant."""
        inverted: dict[str, set[int]] = {}
        for checkpoint_id, paths in self._used_by.items():
            for path in paths:
                inverted.setdefault(path, set()).add(checkpoint_id)
        assert inverted == self._users, (inverted, self._users)
