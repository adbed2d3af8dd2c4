"""ExpiredStateSweep: removes what has expired of a state, a few keys at a time, as the state is used.

Source: org.apache.flink.state.rocksdb.ttl.RocksDbTtlCompactFiltersManager. Differs: rocksdict has no compaction
filters, so the task thread goes round the keys; it takes a tenth as many looks as there are accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flinkpy.state.key_context import KeyContext
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.key_codec import PREFIX, after_prefix, decode_state_key

_ACCESSES_PER_KEY = 10


class ExpiredStateSweep:
    """Thread: task thread. `on_access` is called at every access of the state.

    Args:
        state_id: number of the state in the database.
        clean: removes what has expired of the current key.
        accesses_per_step: as many accesses as go by between two steps.
    """

    def __init__(
        self,
        database: RocksDatabase,
        state_id: int,
        key_groups: range,
        context: KeyContext,
        clean: Callable[[], None],
        accesses_per_step: int,
    ) -> None:
        self._database = database
        self._state_id = state_id
        self._key_groups = key_groups
        self._context = context
        self._clean = clean
        self._accesses_per_step = accesses_per_step
        self._accesses = 0
        self._keys = self._round()

    def on_access(self) -> None:
        self._accesses += 1
        if self._accesses >= self._accesses_per_step:
            self._accesses = 0
            self._step(max(1, self._accesses_per_step // _ACCESSES_PER_KEY))

    def _step(self, size: int) -> None:
        """Look at so many keys; the round after the last key begins with the next step."""
        context = self._context
        current = context.key
        try:
            for _ in range(size):
                key = next(self._keys, self)
                if key is self:
                    self._keys = self._round()
                    return
                context.key = key
                self._clean()
        finally:
            context.key = current

    def _round(self) -> Iterator[Any]:
        """Every key that the database has, each looked for anew: an iterator would hold files for a whole round."""
        for key_group in self._key_groups:
            prefix = PREFIX.pack(key_group, self._state_id)
            begin: bytes | None = prefix
            end = after_prefix(prefix)
            while begin is not None:
                pair = next(self._database.scan(begin, end), None)
                if pair is None:
                    break
                key, stop = decode_state_key(pair[0], PREFIX.size)
                begin = after_prefix(pair[0][:stop])
                yield key
