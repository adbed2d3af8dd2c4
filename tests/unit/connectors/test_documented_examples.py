"""The examples of docs/connectors.md, as they stand there, go through checkpoints and failures."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from connector_fakes import TestingCoordinatorContext
from operator_fakes import SinkLife, SourceLife

from flinkpy.connector_api.source import NoMoreSplits
from flinkpy.connector_api.source_coordinator import SourceCoordinator

DOCUMENT = Path(__file__).parents[3] / "docs" / "connectors.md"


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Returns a module with the code of one example."""

    def load(name):
        [code] = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        path = tmp_path / f"{name}.py"
        path.write_text(code)
        spec = importlib.util.spec_from_file_location(f"example_{name}", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


def exchange(coordinator, context, life, attempt_number):
    """Delivers events between a reader and its coordinator until there are none."""
    while life.sent:
        sent, life.sent[:] = list(life.sent), []
        for event in sent:
            coordinator.handle_event(0, attempt_number, event)
        for _, event in context.take_sent():
            life.operator.handle_operator_event(event)
            if isinstance(event, NoMoreSplits):
                return


def test_documented_source_continues_after_a_restore(example):
    source = example("own_source").CountdownSource(10, 5)
    expected = [*range(10, 0, -1), *range(5, 0, -1)]
    for batches in range(6):
        context = TestingCoordinatorContext(1)
        coordinator = SourceCoordinator(source, context)
        coordinator.start()
        coordinator.subtask_ready(0)
        life = SourceLife(source, batch_rows=3)
        exchange(coordinator, context, life, 0)
        rows = life.emit(batches)
        state, left = coordinator.checkpoint(1), life.checkpoint(1)
        coordinator.reset_to_checkpoint(1, state)
        coordinator.subtask_ready(0)
        life = SourceLife(source, left, batch_rows=4, attempt_number=1)
        while not life.operator.reader._no_more_splits:
            exchange(coordinator, context, life, 1)
            rows += life.emit()
        assert rows == expected


def test_documented_sink_commits_once(example, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    sink = example("own_sink").OrdersSink(str(output))
    checkpointed = {"execution.checkpointing.interval": "1 s"}
    life = SinkLife(sink, configuration=checkpointed)
    life.write(["a", 1])
    life.write(["b", 2])
    state = life.checkpoint(1)
    assert [path for path in output.iterdir() if not path.name.startswith(".")] == []
    for _ in range(2):
        SinkLife(sink, state, configuration=checkpointed)
        [file] = output.iterdir()
        assert json.loads(file.read_text()) == [["a", 1], ["b", 2]]
