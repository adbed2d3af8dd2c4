"""State that an earlier release wrote is restored, with keys of every type that Python conflates with others.

`tests/recorded/keyed_state_0.1.0.json` is a savepoint in the canonical format, written by release 0.1.0: each of `KEYS`
has its position as its value, in two entries of a map, and as the time after 100 of a timer.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from memory_checkpoints import MemoryStreams, parameters

from flinkpy._proto import checkpoint_pb2
from flinkpy.common import Types
from flinkpy.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkpy.records.key_identity import state_key
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.factory import create_keyed_state_backend

RECORDED = Path(__file__).parents[2] / "recorded" / "keyed_state_0.1.0.json"
KEYS: list[Any] = [
    7,
    "a",
    4.0,
    True,
    float("nan"),
    -0.0,
    Decimal("1.50"),
    (1, 2.0),
    (1, "b"),
    dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    NamespacedKey((2.5, 10, 20)),
]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_every_key_of_an_earlier_release_finds_its_state(backend: str, tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    files = MemoryStreams()
    files.files = {path: base64.b64decode(data) for path, data in recorded["files"].items()}
    handle = checkpoint_pb2.KeyedStateHandle.FromString(base64.b64decode(recorded["handle"]))
    configuration = {"state.backend.type": backend}
    restored = create_keyed_state_backend(
        parameters(handle, files=files, directory=tmp_path, configuration=configuration)
    )
    try:
        count = restored.value_state(ValueStateDescriptor("count", Types.LONG()))
        seen = restored.map_state(MapStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY(), Types.LONG()))
        for number, key in enumerate(KEYS):
            # A NaN is a new object in every record.
            restored.key_context.key = state_key(float("nan") if key != key else key)
            assert (key, count.value()) == (key, number)
            assert (seen.get(2.0), seen.get("x"), seen.get(2)) == (number, number, None)
        assert len(list(restored.keys("count"))) == len(KEYS)
        timers = dict(restored.timer_queue("event-time").items())
        assert timers == {100 + number: state_key(key) for number, key in enumerate(KEYS)}
    finally:
        restored.close()
