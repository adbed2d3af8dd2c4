"""The examples of docs/event_time.md and of functions in docs/connectors.md have the documented results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from operator_fakes import SourceLife
from simulated_source import SimulatedSource

from flinkpy.connector_api.source import AddSplits
from flinkpy.connectors.collection import CollectionSource, CollectionSplit
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark

DOCS = Path(__file__).parents[3] / "docs"


def example(page: str, name: str) -> dict[str, Any]:
    [code] = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    namespace: dict[str, Any] = {"__name__": f"example_{name}"}
    exec(compile(code, name, "exec"), namespace)
    return namespace


def test_documented_generator_marks_the_ends_of_blocks():
    rows = [{"at": at, "last_of_block": at % 10 == 0} for at in (7, 10, 9, 20)]
    life = SourceLife(CollectionSource(rows), strategy=example("event_time.md", "own_generator")["strategy"])
    life.operator.handle_operator_event(AddSplits((CollectionSplit(),)))
    life.emit()

    flat = [item for entry in life.output.items for item in (_times(entry) if isinstance(entry, Batch) else [entry])]
    assert flat == [7, 10, Watermark(10), 9, 20, Watermark(20)]


def _times(batch: Batch) -> list[int]:
    assert batch.timestamps is not None
    return batch.timestamps.tolist()


@pytest.mark.parametrize("steps", range(4))
def test_documented_source_function_continues_after_a_restore(steps):
    ticks = example("connectors.md", "source_function")["Ticks"]
    simulated = SimulatedSource(ticks(500).to_source(), parallelism=1)
    for _ in range(steps):
        simulated.step(0)
    simulated.complete(simulated.checkpoint())
    simulated.step(0)
    simulated.fail_all()

    assert _run_with_thread(simulated) == list(range(500))


def _run_with_thread(simulated: SimulatedSource) -> list[int]:
    while not simulated.ended[0]:
        if not simulated.step(0):
            simulated.subtasks[0].context.mailbox.wait(20)
    return simulated.rows
