"""Jobs in one process with different modules of the same name."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from flinkpy.common.job_modules import JobModules, SharedName, in_current_modules
from flinkpy.common.python_path import PythonPath

RULES = """
from dataclasses import dataclass
import te_helper

VERSION = {version!r}

@dataclass
class Rule:
    limit: int = 0

def described():
    from te_pack.part import PART
    return VERSION, te_helper.HELPER, PART
"""


def write_job(directory: Path, version: str) -> str:
    (directory / "te_pack").mkdir(parents=True)
    (directory / "te_rules.py").write_text(RULES.format(version=version))
    (directory / "te_helper.py").write_text(f"HELPER = 'helper of {version}'")
    (directory / "te_pack" / "__init__.py").write_text("from . import part")
    (directory / "te_pack" / "part.py").write_text("from te_helper import HELPER\nPART = 'part and ' + HELPER")
    (directory / f"te_only_{version}.py").write_text(f"ONLY = {version!r}")
    return str(directory)


@pytest.fixture
def python_path(tmp_path: Path) -> Iterator[tuple[PythonPath, tuple[str, ...]]]:
    """The import path with an ordinary job."""
    before, modules = (list(sys.path), list(sys.meta_path), threading.Thread.start), set(sys.modules)
    path = PythonPath()
    acquired = path.acquire([write_job(tmp_path / "a", "a")])
    yield path, acquired
    path.release(acquired)
    assert (list(sys.path), list(sys.meta_path), threading.Thread.start) == before
    assert {name for name in set(sys.modules) - modules if "te_" in name} == set()


def isolated(path: PythonPath, directory: Path, version: str) -> JobModules:
    _, modules = path.acquire_isolated(f"job-{version}", [write_job(directory / version, version)])
    return modules


def in_job(modules: JobModules | None, call: Callable[[], Any]) -> Any:
    """Runs `call` on a thread of the job."""

    def run() -> Any:
        if modules is not None:
            modules.use()
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def described() -> Any:
    import te_rules  # type: ignore[import-not-found]

    return te_rules.described()


def expected(version: str) -> tuple[str, str, str]:
    return version, f"helper of {version}", f"part and helper of {version}"


@pytest.mark.parametrize("first", ["ordinary job", "isolated job"])
def test_each_job_imports_its_own_modules_inside_of_functions(python_path: Any, tmp_path: Path, first: str) -> None:
    path, _ = python_path
    if first == "ordinary job":
        assert described() == expected("a")
    b = isolated(path, tmp_path, "b")
    c = isolated(path, tmp_path, "c")
    for _ in range(2):
        assert in_job(b, described) == expected("b")
        assert in_job(None, described) == expected("a")
        assert in_job(c, described) == expected("c")
    b.close()
    assert in_job(c, described) == expected("c")
    c.close()
    assert not isinstance(sys.modules["te_rules"], SharedName)
    assert described() == expected("a")


def test_the_isolated_job_goes_on_when_the_ordinary_one_ends(tmp_path: Path) -> None:
    path = PythonPath()
    acquired = path.acquire([write_job(tmp_path / "a", "a")])
    described()
    b = isolated(path, tmp_path, "b")
    in_job(b, described)
    path.release(acquired)
    assert in_job(b, described) == expected("b")
    with pytest.raises(AttributeError, match="no module 'te_rules': it belongs to another job"):
        in_job(None, described)
    d = path.acquire([write_job(tmp_path / "d", "d")])
    assert in_job(None, described) == expected("d")
    b.close()
    assert described() == expected("d")
    path.release(d)
    assert not [name for name in sys.modules if name.startswith("te_") or " te_" in name]


def test_objects_of_a_job_are_pickled_under_their_names(python_path: Any, tmp_path: Path) -> None:
    path, _ = python_path
    b = isolated(path, tmp_path, "b")

    def pickled(dumps: Any) -> Any:
        from te_rules import Rule, described

        data = dumps((Rule(3), described))
        rule, function = pickle.loads(data)
        assert type(rule) is Rule and rule == Rule(3)
        assert b"<" not in data, "only real names"
        return data, function()

    for dumps in (pickle.dumps, cloudpickle.dumps):
        data, result = in_job(b, lambda dumps=dumps: pickled(dumps))
        assert result == expected("b")
        assert in_job(None, lambda dumps=dumps: pickled(dumps))[1] == expected("a")
        rule, function = pickle.loads(data)
        assert type(rule) is importlib.import_module("te_rules").Rule
        assert function() == expected("a")
    b.close()


def test_threads_of_a_job_belong_to_it(python_path: Any, tmp_path: Path) -> None:
    path, _ = python_path
    b = isolated(path, tmp_path, "b")
    shared_pool = ThreadPoolExecutor(1)
    shared_pool.submit(int).result()

    def threads() -> list[Any]:
        with ThreadPoolExecutor(1) as own:
            return [own.submit(described).result(), shared_pool.submit(in_current_modules(described)).result()]

    assert in_job(b, threads) == [expected("b")] * 2
    assert shared_pool.submit(described).result() == expected("a")
    assert in_job(None, threads) == [expected("a")] * 2
    shared_pool.shutdown()
    b.close()


def test_names_of_one_job_mean_nothing_to_others(python_path: Any, tmp_path: Path) -> None:
    path, _ = python_path
    b = isolated(path, tmp_path, "b")
    assert in_job(b, lambda: importlib.import_module("te_only_b").ONLY) == "b"

    def other() -> None:
        from te_only_b import ONLY  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(ImportError):
        in_job(None, other)
    assert getattr(sys.modules["te_only_b"], "__file__", None) is None, "tools may look at it"
    assert in_job(None, lambda: importlib.import_module("te_only_a").ONLY) == "a"
    assert in_job(b, lambda: importlib.import_module("json").loads("1")) == 1
    b.close()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("te_only_b")


def test_a_module_that_fails_and_one_that_is_missing_raise_as_always(python_path: Any, tmp_path: Path) -> None:
    path, _ = python_path
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "te_broken.py").write_text("import te_not_there")
    _, b = path.acquire_isolated("job-b", [str(tmp_path / "b")])
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="te_not_there"):
            in_job(b, lambda: importlib.import_module("te_broken"))
    b.close()
    b.close()


def test_threads_of_a_job_wait_until_a_module_is_complete(python_path: Any, tmp_path: Path) -> None:
    path, _ = python_path
    gate = threading.Event()
    arrived = threading.Event()
    sys.te_gate = (arrived, gate)  # type: ignore[attr-defined]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "te_slow.py").write_text(
        "import sys\narrived, gate = sys.te_gate\narrived.set()\nassert gate.wait(30)\nVALUE = 1\n"
    )
    _, b = path.acquire_isolated("job-b", [str(tmp_path / "b")])
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(in_job, b, lambda: importlib.import_module("te_slow").VALUE)
        assert arrived.wait(30)
        second = pool.submit(in_job, b, lambda: importlib.import_module("te_slow").VALUE)
        gate.set()
        assert (first.result(30), second.result(30)) == (1, 1)
    del sys.te_gate  # type: ignore[attr-defined]
    b.close()
