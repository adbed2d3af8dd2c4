"""SharedStateRegistry: which checkpoints need which shared file. Pure.

A file may be deleted when no checkpoint, completed or pending, needs it any more, and only if the job owns it: files
of a savepoint that is not claimed are never deleted.

Source: org.apache.flink.runtime.state.SharedStateRegistry.
Differs: Flink keeps the newest checkpoint that used a file and frees it by order; here each use is kept, so that the
order in which checkpoints end does not matter.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

#: Freed paths that are remembered: far more than the shared files of a few checkpoints.
_MAX_FREED = 1 << 16


class SharedStateRegistry:
    """Thread: any; each call is one step.

    Invariant: a path is in `_users` as long as a checkpoint uses it, with exactly those checkpoints.
    """

    def __init__(self) -> None:
        self._users: dict[str, set[int]] = {}
        self._used_by: dict[int, set[str]] = {}
        self._foreign: set[str] = set()
        self._freed: set[str] = set()
        self._freed_order: deque[str] = deque()
        self._lock = threading.Lock()

    def register(self, checkpoint_id: int, paths: Iterable[str], *, is_owned: bool = True) -> None:
        """The checkpoint uses these files (too). Saying so again changes nothing."""
        with self._lock:
            used = self._used_by.setdefault(checkpoint_id, set())
            for path in paths:
                used.add(path)
                self._users.setdefault(path, set()).add(checkpoint_id)
                if not is_owned:
                    self._foreign.add(path)

    def unregister(self, checkpoint_id: int) -> list[str]:
        """The checkpoint is no more. Returns: files that may be deleted now; each is returned once only."""
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
        """Those of `paths` that no checkpoint uses and that are not foreign; the caller deletes them."""
        with self._lock:
            freed = sorted({path for path in paths if path not in self._users and path not in self._foreign})
            self._remember(freed)
            return freed

    def freed(self, paths: Iterable[str]) -> list[str]:
        """Those of `paths` that may have been deleted: they were said to be deletable.

        A task that has not heard of the last completed checkpoint may build on one that is gone.
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
