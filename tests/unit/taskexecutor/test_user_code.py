from __future__ import annotations

import asyncio
import hashlib
import importlib
import io
import pickle
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest
from taskexecutor_fakes import AtOnce

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.errors import ExternalError, FlinkError, RpcUnavailableError, UnsupportedOperationError, UserError
from flinkpy.common.python_path import PythonPath, RefusedModules
from flinkpy.graph.spark_region import SPARK_TASK
from flinkpy.taskexecutor.local_state_store import LocalStateStore
from flinkpy.taskexecutor.user_code import ProcessEnvironment, UserCode, load_without


class Blobs:
    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.fetched: list[str] = []

    def add(self, name: str, content: bytes, kind: str = "PYTHON_FILE", **attributes: str) -> job_pb2.UserArtifact:
        key = hashlib.sha256(content).hexdigest()
        self.content[key] = content
        return job_pb2.UserArtifact(name=name, blob_key=key, kind=kind, attributes=attributes)

    async def fetch(self, key: str) -> AsyncIterator[bytes]:
        self.fetched.append(key)
        if key not in self.content:
            raise RpcUnavailableError("no blob server")
        content = self.content[key]
        for start in range(0, len(content), 7):
            yield content[start : start + 7]


@pytest.fixture
def python_path() -> Iterator[PythonPath]:
    before, modules = list(sys.path), set(sys.modules)
    yield PythonPath()
    assert sys.path == before
    assert {name for name in set(sys.modules) - modules if name.startswith("te_")} == set()


def user_code(
    tmp_path: Path, path: PythonPath, blobs: Blobs, *artifacts: job_pb2.UserArtifact, **job: object
) -> UserCode:
    information = taskexecutor_pb2.JobInformation(job_id="j", artifacts=artifacts, **job)  # type: ignore[arg-type]
    environment = ProcessEnvironment(tmp_path / "environment", tmp_path / "environments")
    local_state = LocalStateStore([tmp_path / "local_state"], AtOnce())
    return UserCode(information, tmp_path / "job", path, environment, blobs.fetch, local_state)


def test_a_module_is_importable_while_its_job_runs_and_removed_afterwards(
    tmp_path: Path, python_path: PythonPath
) -> None:
    blobs = Blobs()
    code = user_code(tmp_path, python_path, blobs, blobs.add("te_udf.py", b"VALUE = 1"))
    asyncio.run(code.prepare())
    assert importlib.import_module("te_udf").VALUE == 1
    code.close()
    code.close()
    assert "te_udf" not in sys.modules
    assert not (tmp_path / "job").exists()
    again = user_code(tmp_path, python_path, blobs, blobs.add("te_udf.py", b"VALUE = 2"))
    asyncio.run(again.prepare())
    assert importlib.import_module("te_udf").VALUE == 2
    again.close()


def test_a_zip_is_unpacked_so_that_modules_find_the_files_beside_them(tmp_path: Path, python_path: PythonPath) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("te_package/__init__.py", "import os\nFILE = os.path.join(os.path.dirname(__file__), 'value')")
        archive.writestr("te_package/value", "3")
    blobs = Blobs()
    code = user_code(tmp_path, python_path, blobs, blobs.add("te_package.zip", buffer.getvalue()))
    asyncio.run(code.prepare())
    assert Path(importlib.import_module("te_package").FILE).read_text() == "3"
    code.close()


def test_directories_of_the_client_are_used_where_they_exist(tmp_path: Path, python_path: PythonPath) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "te_local.py").write_text("VALUE = 4")
    code = user_code(tmp_path, python_path, Blobs(), python_path=[str(home), "/does/not/exist"])
    asyncio.run(code.prepare())
    assert importlib.import_module("te_local").VALUE == 4
    assert "/does/not/exist" not in sys.path
    code.close()


def test_two_jobs_share_an_entry_until_the_last_one_leaves(tmp_path: Path, python_path: PythonPath) -> None:
    first = python_path.acquire([str(tmp_path)])
    second = python_path.acquire([str(tmp_path)])
    python_path.release(first)
    assert str(tmp_path) in sys.path
    python_path.release(second)
    assert str(tmp_path) not in sys.path


def test_different_modules_of_one_name_in_two_running_jobs_are_an_error(
    tmp_path: Path, python_path: PythonPath
) -> None:
    for name, content in (("a", "VALUE = 1"), ("b", "VALUE = 2"), ("c", "VALUE = 1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "te_clash.py").write_text(content)
    first = python_path.acquire([str(tmp_path / "a")])
    importlib.import_module("te_clash")
    with pytest.raises(UnsupportedOperationError, match="te_clash"):
        python_path.acquire([str(tmp_path / "b")])
    same = python_path.acquire([str(tmp_path / "c")])
    python_path.release(same)
    python_path.release(first)
    python_path.release(python_path.acquire([str(tmp_path / "b")]))


def test_different_modules_of_one_name_shipped_by_two_running_jobs_are_an_error(
    tmp_path: Path, python_path: PythonPath
) -> None:
    """This also holds if no module is loaded yet: a later import would return the other job's module."""
    for name, content in (("a", "VALUE = 1"), ("b", "VALUE = 2"), ("c", "VALUE = 1")):
        (tmp_path / name / "te_package").mkdir(parents=True)
        (tmp_path / name / "te_package" / "__init__.py").write_text(content)
        (tmp_path / name / f"te_{name}.py").write_text("")
    first, second, same = (str(tmp_path / name) for name in "abc")
    acquired = python_path.acquire([first], shipped=[first])
    with pytest.raises(UnsupportedOperationError, match="te_package"):
        python_path.acquire([second], shipped=[second])
    python_path.release(python_path.acquire([same], shipped=[same]))
    python_path.release(acquired)
    python_path.release(python_path.acquire([second], shipped=[second]))


def vertex(function: object, task_kind: str = "") -> job_pb2.JobVertex:
    operator = job_pb2.OperatorDescriptor(factory_pickle=cloudpickle.dumps(function, protocol=5))
    return job_pb2.JobVertex(chain=[operator], task_kind=task_kind)


def clashing(value: object) -> object:
    from te_udf import VALUE  # type: ignore[import-not-found]

    return VALUE


clashing.__module__ = "__main__"  # so that it is pickled by value


def test_a_job_whose_modules_clash_runs_tasks_that_do_not_need_them(tmp_path: Path, python_path: PythonPath) -> None:
    blobs = Blobs()
    first = user_code(tmp_path / "1", python_path, blobs, blobs.add("te_udf.py", b"VALUE = 1"))
    second = user_code(tmp_path / "2", python_path, blobs, blobs.add("te_udf.py", b"VALUE = 2"))
    asyncio.run(first.prepare())
    asyncio.run(second.prepare())
    assert first.refused_modules(vertex(clashing), has_remote_inputs=True) is None
    refused = second.refused_modules(vertex("te_other"), has_remote_inputs=False)
    assert refused is not None and refused.names == {"te_udf"}
    assert second.refused_modules(vertex(clashing, SPARK_TASK), has_remote_inputs=False) is not None
    assert second.shipped_files.import_path[0] == str(tmp_path / "2" / "job" / "files" / key_of(second))
    assert second.shipped_files.import_path[0] not in sys.path
    assert first.shipped_files.import_path[0] not in second.shipped_files.import_path
    with pytest.raises(UnsupportedOperationError, match="'te_udf'"):
        second.refused_modules(vertex(clashing), has_remote_inputs=False)
    with pytest.raises(UnsupportedOperationError, match="'te_udf'"):
        second.refused_modules(vertex("te_other"), has_remote_inputs=True)
    first.close()
    second.close()


def key_of(code: UserCode) -> str:
    (artifact,) = code._job.artifacts
    return artifact.blob_key[:16]


@pytest.mark.parametrize(
    ("value", "is_named"),
    [
        (Path, False),
        (["a text about te_refused", "te_refused and more"], False),
        ("te_refused", True),
        ("te_refused.part", True),
        ("te_refusedness", False),
    ],
)
def test_pickles_that_name_a_refused_module_are_found(value: object, is_named: bool) -> None:
    refused = RefusedModules(["te_refused", "te_other"], "no")
    assert refused.are_named_in(pickle.dumps(value, protocol=5)) is is_named


def test_objects_of_refused_modules_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "te_refused.py").write_text("class Value: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = pickle.dumps(importlib.import_module("te_refused").Value(), protocol=5)
    del sys.modules["te_refused"]
    refused = pickle.loads(pickle.dumps(RefusedModules(["te_refused"], "cannot load te_refused")))
    with pytest.raises(UnsupportedOperationError, match="cannot load te_refused"):
        load_without(refused, data)
    assert "te_refused" not in sys.modules
    assert load_without(refused, pickle.dumps((1, Path("a")))) == (1, Path("a"))


def test_modules_of_an_entry_inside_another_stay(tmp_path: Path, python_path: PythonPath) -> None:
    """A virtual environment inside the user's project keeps its packages when the project leaves."""
    inner = tmp_path / "venv" / "site-packages"
    inner.mkdir(parents=True)
    (inner / "kept_module.py").write_text("")
    sys.path.append(str(inner))
    try:
        entries = python_path.acquire([str(tmp_path)])
        importlib.import_module("kept_module")
        python_path.release(entries)
        assert "kept_module" in sys.modules
    finally:
        sys.path.remove(str(inner))
        sys.modules.pop("kept_module", None)


def test_the_main_module_of_the_process_stays(
    tmp_path: Path, python_path: PythonPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script of this process may lie in a directory that a job names. Libraries look for the main module."""
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / "flinkpy")
    monkeypatch.setitem(sys.modules, "__main__", main)
    python_path.release(python_path.acquire([str(tmp_path)]))
    assert sys.modules["__main__"] is main


def test_archives_are_unpacked_in_the_working_directory_and_files_are_cached(
    tmp_path: Path, python_path: PythonPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("model/weights.txt")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    blobs = Blobs()
    code = user_code(
        tmp_path,
        python_path,
        blobs,
        blobs.add("model.tar.gz", buffer.getvalue(), "PYTHON_ARCHIVE", target_dir="m"),
        blobs.add("lookup.csv", b"1,2", "CACHED_FILE"),
    )
    asyncio.run(code.prepare())
    assert Path("m/model/weights.txt").read_bytes() == b"abc"
    assert Path(code.cached_files["lookup.csv"]).read_bytes() == b"1,2"
    code.close()


def test_a_damaged_blob_is_refused(tmp_path: Path, python_path: PythonPath) -> None:
    blobs = Blobs()
    artifact = blobs.add("te_udf.py", b"VALUE = 1")
    blobs.content[artifact.blob_key] = b"VALUE = 6"
    code = user_code(tmp_path, python_path, blobs, artifact)
    with pytest.raises(ExternalError, match="damaged"):
        asyncio.run(code.prepare())
    code.close()


def test_a_missing_blob_server_is_an_external_error_that_names_the_file(
    tmp_path: Path, python_path: PythonPath
) -> None:
    code = user_code(tmp_path, python_path, Blobs(), job_pb2.UserArtifact(name="te.py", blob_key="ab"))
    with pytest.raises(ExternalError, match=r"te\.py"):
        asyncio.run(code.prepare())
    code.close()


@pytest.mark.parametrize("name", ["..", "", "a/.."])
def test_a_name_that_leaves_the_directory_is_refused(name: str, tmp_path: Path, python_path: PythonPath) -> None:
    blobs = Blobs()
    code = user_code(tmp_path, python_path, blobs, blobs.add(name, b"x"))
    with pytest.raises(UserError):
        asyncio.run(code.prepare())
    code.close()


@pytest.mark.parametrize("target", ["../out", "/etc/out"])
def test_an_archive_cannot_be_unpacked_elsewhere(target: str, tmp_path: Path, python_path: PythonPath) -> None:
    blobs = Blobs()
    artifact = blobs.add("a.tar", b"x", "PYTHON_ARCHIVE", target_dir=target)
    code = user_code(tmp_path, python_path, blobs, artifact)
    with pytest.raises(FlinkError, match="leads out"):
        asyncio.run(code.prepare())
    code.close()


def test_a_job_that_leaves_while_its_files_are_fetched_leaves_nothing(tmp_path: Path, python_path: PythonPath) -> None:
    blobs = Blobs()
    code = user_code(tmp_path, python_path, blobs, blobs.add("te_udf.py", b"VALUE = 1"))

    async def scenario() -> None:
        preparing = asyncio.ensure_future(code.prepare())
        await asyncio.sleep(0)
        code.close()
        await preparing

    asyncio.run(scenario())
    assert not (tmp_path / "job").exists()
