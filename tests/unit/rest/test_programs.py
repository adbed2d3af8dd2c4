"""Uploaded programs: what is accepted, and how it is run."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from rest_harness import RestHarness

from flinkpy.common.errors import PrivateDirectoryError
from flinkpy.rest.errors import RestError
from flinkpy.rest.handlers.jars import program_configuration
from flinkpy.rest.messages.jars import JarRunRequestBody
from flinkpy.rest.operation import RestCall
from flinkpy.rest.options import RestOptions
from flinkpy.rest.program_plan import flink_plan, node_id
from flinkpy.rest.programs import Launch, Programs, entry_points, upload_directory
from flinkpy.security import Role


def archive(files: dict[str, str]) -> io.BytesIO:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return content


def wheel(scripts: str) -> io.BytesIO:
    return archive({"pkg/main.py": "", "pkg-1.dist-info/entry_points.txt": scripts})


def store(directory: Path, max_total_bytes: int = 1 << 20) -> Programs:
    return Programs(lambda: directory, max_total_bytes)


def stored(directory: Path, name: str, content: io.BytesIO) -> tuple[Programs, str]:
    programs = store(directory)
    return programs, programs.add(name, content).name


def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(RestError) as raised:
        call()
    return int(raised.value.status), raised.value.message


def test_a_script_is_stored_listed_run_and_deleted(tmp_path: Path) -> None:
    programs, program_id = stored(tmp_path, "job.py", io.BytesIO(b"print()"))
    (found,) = programs.all()
    assert (found.id, found.name, found.entries) == (program_id, "job.py", (("__main__", "the script"),))
    assert programs.launch(program_id, None) == Launch(str(tmp_path / program_id))
    programs.delete(program_id)
    assert (programs.all(), list(tmp_path.iterdir())) == ([], [])
    assert refusal(lambda: programs.delete(program_id))[0] == 400
    assert refusal(lambda: programs.launch(program_id, None))[0] == 404


@pytest.mark.parametrize("name", ["job.jar", "job", ".py", "../job.py/", "a b.py", "x;y.py", "-.py", "job.py\0"])
def test_other_files_and_names_are_refused(name: str, tmp_path: Path) -> None:
    assert refusal(lambda: store(tmp_path).add(name, io.BytesIO(b"")))[0] == 400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../../job.py", "/etc/job.py", "C:\\dir\\job.py"])
def test_a_directory_in_the_name_is_dropped(name: str, tmp_path: Path) -> None:
    assert store(tmp_path).add(name, io.BytesIO(b"")).parent == tmp_path


def test_an_archive_must_be_a_zip_file(tmp_path: Path) -> None:
    assert refusal(lambda: store(tmp_path).add("job.zip", io.BytesIO(b"no"))) == (400, "job.zip is not a zip file.")
    assert list(tmp_path.iterdir()) == []


def test_the_size_of_all_programs_is_bounded(tmp_path: Path) -> None:
    programs = store(tmp_path, max_total_bytes=10)
    programs.add("a.py", io.BytesIO(b"x" * 6))
    assert refusal(lambda: programs.add("b.py", io.BytesIO(b"x" * 5)))[0] == 413


def test_an_archive_runs_its_main_or_a_module(tmp_path: Path) -> None:
    programs, program_id = stored(tmp_path, "job.zip", archive({"__main__.py": "", "other.py": ""}))
    path = str(tmp_path / program_id)
    assert programs.launch(program_id, None) == Launch(path, (path,))
    assert programs.launch(program_id, "other") == Launch("module:other", (path,))


def test_an_archive_without_main_needs_an_entry(tmp_path: Path) -> None:
    programs, program_id = stored(tmp_path, "job.pyz", archive({"other.py": ""}))
    status, message = refusal(lambda: programs.launch(program_id, None))
    assert (status, "entryClass" in message) == (400, True)
    launch = programs.launch(program_id, "other")
    assert launch.program == "module:other" and launch.python_files[0].endswith(".pyz.zip")
    assert [one.id for one in programs.all()] == [program_id]
    programs.delete(program_id)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_runs_its_only_console_script(tmp_path: Path) -> None:
    programs, program_id = stored(
        tmp_path, "pkg-1-py3-none-any.whl", wheel("[console_scripts]\nGo = pkg.main:run [x]\n")
    )
    assert entry_points(tmp_path / program_id) == (("Go", "pkg.main:run"),)
    launch = programs.launch(program_id, None)
    assert launch == programs.launch(program_id, "Go") == programs.launch(program_id, "pkg.main:run")
    text = Path(launch.program).read_text(encoding="utf-8")
    assert "import_module('pkg.main')" in text and "'run'.split" in text
    assert zipfile.is_zipfile(launch.python_files[0]) and launch.python_files[0].endswith(".zip")
    assert programs.launch(program_id, "pkg.main").program == "module:pkg.main"


@pytest.mark.parametrize("entry", ["a b", "os.system('x')", "a:b:c", "-m", "a/b", "a\nb", ".a"])
def test_an_entry_that_is_no_name_is_refused(entry: str, tmp_path: Path) -> None:
    programs, program_id = stored(tmp_path, "pkg-1-py3-none-any.whl", wheel(""))
    assert refusal(lambda: programs.launch(program_id, entry))[0] == 400


@pytest.mark.parametrize(
    "scripts", ["[console_scripts]\nx = os:system('y')\n", "[console_scripts\n", "x = y", "\udcff"]
)
def test_metadata_that_lies_runs_nothing(scripts: str, tmp_path: Path) -> None:
    content = archive({})
    with zipfile.ZipFile(content, "w") as made:
        made.writestr("pkg-1.dist-info/entry_points.txt", scripts.encode("utf-8", "surrogateescape"))
    programs, program_id = stored(tmp_path, "pkg-1-py3-none-any.whl", content)
    assert refusal(lambda: programs.launch(program_id, None))[0] == 400


def test_the_upload_directory_is_private(tmp_path: Path) -> None:
    made = upload_directory(str(tmp_path / "new"))
    assert made == tmp_path / "new" / "flinkpy-web-upload" and made.stat().st_mode & 0o777 == 0o700
    os.chmod(made, 0o777)
    with pytest.raises(PrivateDirectoryError):
        upload_directory(str(tmp_path / "new"))


def call_with(body: JarRunRequestBody, **query: Any) -> RestCall:
    every = dict.fromkeys(("programArg", "entry-class", "parallelism", "savepointPath", "allowNonRestoredState"))
    return RestCall(RestHarness().context, Role.SUBMIT, query={**every, **query}, body=body)


def test_a_request_sets_the_options_of_its_program() -> None:
    body = JarRunRequestBody(
        parallelism=3,
        job_id="A" * 32,
        savepoint_path="/sp",
        allow_non_restored_state=True,
        claim_mode="CLAIM",
        flink_configuration={"pipeline.name": "n", "parallelism.default": "1"},
    )
    assert program_configuration(call_with(body)) == {
        "pipeline.name": "n",
        "parallelism.default": "3",
        "$internal.pipeline.job-id": "a" * 32,
        "execution.state-recovery.path": "/sp",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "execution.state-recovery.claim-mode": "CLAIM",
    }


def test_the_body_precedes_the_query() -> None:
    given = program_configuration(call_with(JarRunRequestBody(parallelism=3), parallelism=4, savepointPath="/q"))
    assert given == {"parallelism.default": "3", "execution.state-recovery.path": "/q"}


@pytest.mark.parametrize("body", [JarRunRequestBody(parallelism=0), JarRunRequestBody(job_id="x")])
def test_values_that_cannot_be_are_refused(body: JarRunRequestBody) -> None:
    assert refusal(lambda: program_configuration(call_with(body)))[0] == 400


def test_the_plan_of_a_program_has_a_node_for_each_task() -> None:
    operators = [
        {"id": 1, "name": "Source", "inputs": []},
        {"id": 2, "name": "Map", "inputs": [{"operator": 1, "exchange": "FORWARD", "is_blocking": False}]},
        {"id": 3, "name": "Sink", "inputs": [{"operator": 2, "exchange": "HASH", "is_blocking": True}]},
    ]
    tasks = [{"parallelism": 2, "operators": [1, 2]}, {"parallelism": 1, "operators": [3]}]
    plan = flink_plan("j", {"job_name": "n", "is_batch": True, "operators": operators, "tasks": tasks})
    assert (plan["jid"], plan["name"], plan["type"]) == ("j", "n", "BATCH")
    first, second = plan["nodes"]
    assert (first["description"], first["parallelism"], "inputs" in first) == ("Source -> Map", 2, False)
    assert second["inputs"] == [{"num": 0, "id": node_id(0), "ship_strategy": "HASH", "exchange": "blocking"}]


def test_programs_are_uploaded_listed_and_deleted_over_http(tmp_path: Path) -> None:
    server = RestHarness()
    server.uploads = tmp_path
    answer = server.call("POST", "/jars/upload", files={"jarfile": ("job.py", b"x = 1")})
    assert answer.status_code == 200 and answer.json()["status"] == "success"
    (listed,) = server.call("GET", "/jars", role=Role.READ).json()["files"]
    assert (listed["name"], listed["id"]) == ("job.py", os.path.basename(answer.json()["filename"]))
    assert server.call("DELETE", f"/jars/{listed['id']}", role=Role.READ).status_code == 403
    assert server.call("DELETE", f"/jars/{listed['id']}").status_code == 200
    assert server.call("GET", "/jars").json()["files"] == []


@pytest.mark.parametrize("verb, path", [("POST", "/jars/upload"), ("GET", "/jars/x/plan"), ("POST", "/jars/x/run")])
def test_whoever_only_reads_runs_no_program(verb: str, path: str) -> None:
    assert RestHarness().call(verb, path, role=Role.READ).status_code == 403


@pytest.mark.parametrize("arguments", [{}, {"content": b"x"}, {"data": {"jarfile": "x"}}, {"json": {}}])
def test_an_upload_without_a_file_is_refused(arguments: dict[str, Any]) -> None:
    assert RestHarness().call("POST", "/jars/upload", **arguments).status_code == 400


def test_an_upload_of_two_files_is_refused() -> None:
    files = [("jarfile", ("a.py", b"x")), ("jarfile", ("b.py", b"x"))]
    answer = RestHarness().call("POST", "/jars/upload", files=files)
    assert answer.status_code == 400 and "Too many files" in answer.text


def test_programs_can_be_switched_off() -> None:
    server = RestHarness(options=RestOptions(may_submit=False))
    answer = server.call("GET", "/jars")
    assert (answer.status_code, answer.json()) == (404, {"errors": ["Unable to load requested file /jars."]})
