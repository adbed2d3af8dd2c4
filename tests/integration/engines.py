"""The engines that run batch programs, for tests whose answers must be the same on all of them.

`ENGINES` maps a name to the properties of a job; `engine_properties(name)` skips the test where its engine cannot run.
"""

from __future__ import annotations

ENGINES: dict[str, dict[str, str]] = {
    "native-batch": {"execution.runtime-mode": "BATCH", "execution.batch.backend": "native"},
    "native-streaming": {"execution.runtime-mode": "STREAMING"},
}


def engine_properties(engine: str) -> dict[str, str]:
    """What a job's configuration needs to run on the engine."""
    return dict(ENGINES[engine])
