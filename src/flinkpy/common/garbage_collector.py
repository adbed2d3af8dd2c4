"""Settings of the cyclic garbage collector for processes that run functions of users (docs/decisions/0004)."""

from __future__ import annotations

import gc

#: The number of new container objects that starts a collection of the youngest generation. CPython's 700 is a fraction
#: of a batch, whose rows live until the batch has been processed, so an earlier collection frees nothing.
YOUNG_THRESHOLD = 100_000
#: The number of collections of a generation that starts one of the next older generation; CPython's is 10.
OLDER_THRESHOLD = 20


def tune_garbage_collector(*, freezes: bool) -> None:
    """Makes collections rarer, and excludes all present objects from them if `freezes` is true.

    Objects of a job must not be among those: they would never be freed, nor would the state that they refer to.
    """
    if freezes:
        gc.collect()
        gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, OLDER_THRESHOLD, OLDER_THRESHOLD)
