"""Old pickles refer to classes of user functions by the names of their former modules."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

from flinkpy.datastream.functions import Function, ProcessWindowFunction, SinkFunction, SourceFunction
from flinkpy.datastream.window import EventTimeTrigger, GlobalWindow, TimeWindow, TumblingEventTimeWindows
from flinkpy.moved_modules import MOVED

CLASSES = {
    "flinkpy.datastream.base_functions": Function,
    "flinkpy.datastream.source_sink_functions": SinkFunction,
    "flinkpy.datastream.window.time_triggers": EventTimeTrigger,
    "flinkpy.datastream.window.time_windows": TumblingEventTimeWindows,
    "flinkpy.datastream.window.windows": TimeWindow,
    "flinkpy.datastream.window_functions": ProcessWindowFunction,
}


@pytest.mark.parametrize("module", MOVED)
def test_old_module_can_be_imported(module: str) -> None:
    old = import_module(module)

    assert all(vars(old)[name] is value for new in MOVED[module] for name, value in _classes(new).items())


@pytest.mark.parametrize("module", CLASSES)
def test_pickle_with_an_old_module_name_gives_the_class_of_today(module: str) -> None:
    expected = CLASSES[module]
    assert expected.__module__ != module

    assert pickle.loads(f"c{module}\n{expected.__name__}\n.".encode()) is expected


def test_window_of_an_old_pickle_is_equal_to_a_new_one() -> None:
    old = pickle.dumps(TimeWindow(0, 10), 2).replace(b"flinkpy.functions.windows", b"flinkpy.datastream.window.windows")
    assert b"flinkpy.datastream.window.windows" in old

    assert pickle.loads(old) == TimeWindow(0, 10)
    assert type(pickle.loads(old)) is TimeWindow


def test_both_halves_of_a_divided_module_are_there() -> None:
    old = import_module("flinkpy.datastream.source_sink_functions")

    assert (old.SourceFunction, old.SinkFunction) == (SourceFunction, SinkFunction)
    assert not hasattr(old, GlobalWindow.__name__)


def _classes(module: str) -> dict[str, type]:
    return {
        name: value
        for name, value in vars(import_module(module)).items()
        if isinstance(value, type) and value.__module__ == module
    }


def test_process_that_has_not_loaded_the_datastream_api_finds_moved_classes() -> None:
    program = """
import pickle, sys
print(pickle.loads(b"cflinkpy.connectors.rate_limiter\\n_NoLimit\\n.").__module__, "flinkpy.datastream" in sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == ["flinkpy.connectors.datagen", "False"]
