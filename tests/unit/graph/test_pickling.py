from __future__ import annotations

import functools
import os
import pickle
import sys
import threading
from pathlib import Path

import pytest

from flinkpy.common import Configuration
from flinkpy.common.errors import FunctionSerializationError
from flinkpy.datastream import MapFunction, StreamExecutionEnvironment
from flinkpy.graph.pickling import dumps_function, name_of_function, user_python_path

A_LOCK = threading.Lock()


class Holder:
    def __init__(self) -> None:
        self.inner = {"list": [1, threading.Lock()]}


class BadMap(MapFunction):
    def __init__(self) -> None:
        self.connection = Holder()

    def map(self, value: object) -> object:
        return value


class Refuses:
    def __reduce__(self) -> object:
        raise RuntimeError("I stay here")


def failure(function: object) -> FunctionSerializationError:
    with pytest.raises(FunctionSerializationError) as caught:
        dumps_function(function, function, "My Operator")
    return caught.value


def test_closure_that_can_be_pickled_keeps_its_variables() -> None:
    offset = 3
    restored = pickle.loads(dumps_function(lambda x: x + offset, None, "Map"))

    assert restored(4) == 7


def test_lock_in_a_closure_is_named_with_function_and_operator() -> None:
    lock = threading.Lock()

    def guarded(value: object) -> object:
        with lock:
            return value

    error = failure(guarded)

    assert "guarded" in str(error)
    assert "operator 'My Operator'" in str(error)
    assert "closure variable 'lock' is a _thread.lock" in str(error)
    assert "open()" in str(error)
    assert error.details["culprit"] == "closure variable 'lock'"


def test_culprit_deep_inside_an_object_is_found() -> None:
    error = failure(BadMap())

    assert "attribute 'connection' -> attribute 'inner' -> item 'list' -> element 1" in error.details["culprit"]
    assert error.details["function"].endswith("test_pickling.BadMap")


def test_global_variable_of_a_function_pickled_by_value_is_found() -> None:
    namespace: dict[str, object] = {"LOCK": A_LOCK, "__name__": "__main__"}
    exec("def f(x):\n    with LOCK:\n        return x", namespace)

    assert "global variable 'LOCK'" in str(failure(namespace["f"]))


def test_argument_of_a_partial_is_found() -> None:
    error = failure(functools.partial(max, A_LOCK))

    assert "argument 0" in str(error)
    assert error.details["function"].startswith("partial of builtins.max")


def test_default_argument_is_found() -> None:
    def f(value: object, lock: object = A_LOCK) -> object:
        return value

    assert "default argument 0" in str(failure(f))


def test_object_of_a_bound_method_is_found() -> None:
    assert "the method's object -> attribute 'connection'" in str(failure(BadMap().map))


def test_error_contains_the_reason_of_an_object_that_refuses_pickling() -> None:
    refuses = Refuses()

    assert "I stay here" in str(failure(lambda: refuses))


def test_search_in_an_endless_structure_ends() -> None:
    loop: list[object] = [A_LOCK]
    loop.append(loop)

    assert "element 0" in str(failure(lambda: loop))


def test_program_error_names_the_operator_of_the_function() -> None:
    env = StreamExecutionEnvironment(Configuration())
    lock = threading.Lock()
    env.from_sequence(1, 2).map(lambda x: (lock, x)).name("Locker")

    with pytest.raises(FunctionSerializationError, match=r"operator 'Locker'.*closure variable 'lock'"):
        env.generate_job_graph()


def test_function_names_contain_module_and_qualified_name() -> None:
    assert name_of_function(len) == "builtins.len"
    assert name_of_function(BadMap()).endswith(".BadMap")
    assert name_of_function(functools.partial(len)) == "partial of builtins.len"


def test_python_path_contains_only_the_directories_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", *sys.path, str(tmp_path), "/no/such/directory"])

    found = user_python_path()

    assert found[0] == os.path.realpath(tmp_path)
    assert found.count(os.path.realpath(tmp_path)) == 1
    assert os.path.realpath(os.getcwd()) in found
    assert not [entry for entry in found if "site-packages" in entry or "/no/such" in entry]
