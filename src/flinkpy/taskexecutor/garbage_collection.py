"""The cyclic garbage collector of a process that makes millions of small objects a second (docs/decisions/0004)."""

from __future__ import annotations

import gc

#: Container objects made before the youngest generation is looked at; CPython's 700 is a fraction of one batch, and
#: the rows of a batch are alive until the batch has been processed, so looking sooner finds nothing to free.
YOUNG_THRESHOLD = 100_000
#: Collections of one generation before the next older one is looked at too; CPython's is 10.
OLDER_THRESHOLD = 20


def tune_garbage_collector() -> None:
    """Leave alone what was imported, and look for cycles per batches rather than per some hundred rows."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, OLDER_THRESHOLD, OLDER_THRESHOLD)
