from __future__ import annotations

import asyncio
import hashlib
import importlib
import io
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from taskexecutor_fakes import AtOnce

from flinkpy._proto import job_pb2, taskexecutor_pb2
from flinkpy.common.errors import ExternalError, FlinkError, RpcUnavailableError, UnsupportedOperationError, UserError
from flinkpy.common.python_path import PythonPath
from flinkpy.taskexecutor.local_state_store import LocalStateStore
from flinkpy.taskexecutor.user_code import ProcessEnvironment, UserCode


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


def test_different_modules_of_one_name_in_two_running_jobs_are_an_error_before_one_is_loaded(
    tmp_path: Path, python_path: PythonPath
) -> None:
    """The job that imports later would get the module of the other."""
    for name, content in (("a", "VALUE = 1"), ("b", "VALUE = 2"), ("c", "VALUE = 1")):
        (tmp_path / name / "te_package").mkdir(parents=True)
        (tmp_path / name / "te_package" / "__init__.py").write_text(content)
        (tmp_path / name / f"te_{name}.py").write_text("")
    first, second, same = (str(tmp_path / name) for name in "abc")
    acquired = python_path.acquire([first])
    with pytest.raises(UnsupportedOperationError, match="te_package"):
        python_path.acquire([second])
    python_path.release(python_path.acquire([same]))
    python_path.release(acquired)
    python_path.release(python_path.acquire([second]))


def used_value(code: UserCode) -> object:
    """Returns the value of the module of a job, as a task of the job sees it."""

    def imported() -> object:
        code.use_in_this_thread()
        from te_udf import VALUE  # type: ignore[import-not-found]

        return VALUE

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(imported).result()


def test_jobs_with_different_modules_of_one_name_run_at_the_same_time(tmp_path: Path, python_path: PythonPath) -> None:
    blobs = Blobs()
    codes = [
        user_code(tmp_path / str(number), python_path, blobs, blobs.add("te_udf.py", f"VALUE = {number}".encode()))
        for number in range(3)
    ]
    for code in codes:
        asyncio.run(code.prepare())
    assert [used_value(code) for code in codes] == [0, 1, 2]
    second = codes[1].shipped_files.import_path
    assert second[0] == str(tmp_path / "1" / "job" / "files" / key_of(codes[1]))
    assert second[0] not in sys.path
    assert codes[0].shipped_files.import_path[0] not in second
    codes[0].close()
    assert [used_value(code) for code in codes[1:]] == [1, 2]
    for code in codes:
        code.close()


def test_directories_of_clients_with_different_modules_are_isolated_too(
    tmp_path: Path, python_path: PythonPath
) -> None:
    common = tmp_path / "common"
    common.mkdir()
    (common / "te_common.py").write_text("VALUE = []")
    codes = []
    for number in range(2):
        home = tmp_path / f"home-{number}"
        home.mkdir()
        (home / "te_udf.py").write_text(f"import te_common\nVALUE = ({number}, te_common.VALUE)")
        code = user_code(tmp_path / str(number), python_path, Blobs(), python_path=[str(home), str(common)])
        asyncio.run(code.prepare())
        codes.append(code)
    (first, one), (second, other) = [used_value(code) for code in codes]  # type: ignore[attr-defined]
    assert (first, second) == (0, 1)
    assert one is other, "both jobs have this directory"
    for code in codes:
        code.close()


def key_of(code: UserCode) -> str:
    (artifact,) = code._job.artifacts
    return artifact.blob_key[:16]


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
