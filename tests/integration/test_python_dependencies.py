"""Dependencies of a program's functions: modules, archives, and packages that pip installs.

The packages are wheels that the tests build, so no network is needed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import Gate, environment

from flinkpy.common.errors import JobExecutionError
from flinkpy.datastream import StreamExecutionEnvironment


def make_wheel(directory: Path, name: str, version: str, source: str) -> None:
    """Writes a wheel with one module, without a build."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(text)}")
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]))


@pytest.fixture
def environments(tmp_path: Path) -> Path:
    return tmp_path / "environments"


@pytest.fixture
def start(start_cluster: StartCluster, environments: Path) -> Callable[..., RunningCluster]:
    def start(**options: Any) -> RunningCluster:
        properties = {"python.environment.dir": str(environments), **options.pop("properties", {})}
        return start_cluster(properties=properties, **options)

    return start


@pytest.fixture
def packages(tmp_path: Path) -> Callable[[str], tuple[str, str]]:
    """Returns a function for the requirements of one version of a package and the directory with its wheel."""

    def of_version(version: str) -> tuple[str, str]:
        directory = tmp_path / f"packages-{version}"
        make_wheel(directory, "flinkpy_test_greeting", version, f"TEXT = 'hello {version}'\n")
        requirements = tmp_path / f"requirements-{version}.txt"
        requirements.write_text(f"flinkpy-test-greeting=={version}\n")
        return str(requirements), str(directory)

    return of_version


def greet(value: int) -> tuple[str, int]:
    import flinkpy_test_greeting

    return flinkpy_test_greeting.TEXT, os.getpid()


def collected(env: StreamExecutionEnvironment, function: Callable[[int], Any], values: int = 20) -> list[Any]:
    with env.from_sequence(1, values).map(function).execute_and_collect() as results:
        return list(results)


def test_functions_can_import_the_programs_requirements_and_pip_runs_once_per_host(
    start: Callable[..., RunningCluster], packages: Callable[[str], tuple[str, str]], environments: Path
) -> None:
    cluster, required = start(), packages("1.0")
    env = environment(cluster)
    env.set_python_requirements(*required)
    assert {text for text, _ in collected(env, greet)} == {"hello 1.0"}
    (log,) = environments.glob("*/pip.log")
    before = log.stat()
    again = environment(cluster)
    again.set_python_requirements(*required)
    assert {text for text, _ in collected(again, greet)} == {"hello 1.0"}
    assert [path.stat().st_mtime_ns for path in environments.glob("*/pip.log")] == [before.st_mtime_ns]


def test_jobs_with_two_versions_of_a_module_run_at_once_in_one_process(
    start: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    """Functions import the module when they are called. Its objects are records, keys' state, and in checkpoints."""
    cluster = start(num_task_executors=1, slots=4)

    process = cluster.task_executors[0].popen.pid

    def job(version: str) -> tuple[StreamExecutionEnvironment, Gate, Any]:
        directory = tmp_path / version
        directory.mkdir()
        (directory / "rules.py").write_text(
            "from dataclasses import dataclass\n\n"
            "@dataclass\nclass Rule:\n    value: int\n    version: str\n\n"
            f"def rule(value):\n    return Rule(value, {version!r})\n"
        )
        env = environment(cluster, **{"execution.checkpointing.interval": "100 ms"})
        env.set_parallelism(2)
        env.add_python_file(str(directory / "rules.py"))
        gate = Gate(directory)

        def applied(value: int) -> Any:
            from rules import rule  # type: ignore[import-not-found]

            return rule(value)

        def merged(one: Any, other: Any) -> Any:
            import rules

            assert isinstance(one, rules.Rule) and isinstance(other, rules.Rule)
            return rules.Rule(one.value + other.value, other.version)

        keyed = env.from_sequence(1, 40).map(applied).key_by(lambda rule: rule.value % 2).reduce(merged)
        last = (version, sum(range(2, 41, 2)), process)
        held = keyed.map(lambda rule: (rule.version, rule.value, os.getpid())).map(gate.pass_at(last))
        return env, gate, held.execute_and_collect()

    jobs = [job(version) for version in ("first", "second")]
    for _, gate, _ in jobs:
        gate.wait_for_arrival()
    for _, gate, _ in jobs:
        gate.open()
    found = [list(results) for _, _, results in jobs]
    for version, rows in zip(("first", "second"), found, strict=True):
        assert {row[0] for row in rows} == {version}
        assert max(row[1] for row in rows) == sum(range(2, 41, 2))
    assert len({row[2] for rows in found for row in rows}) == 1, "one process has run both"


@pytest.mark.chaos
def test_jobs_that_require_different_versions_follow_one_another_on_one_cluster(
    start: Callable[..., RunningCluster], packages: Callable[[str], tuple[str, str]]
) -> None:
    cluster = start(num_task_executors=1, slots=2)
    for version in ("1.0", "2.0", "1.0"):
        env = environment(cluster)
        env.set_python_requirements(*packages(version))
        assert {text for text, _ in collected(env, greet)} == {f"hello {version}"}
    # A job without requirements cannot import the package.
    with pytest.raises(JobExecutionError, match="No module named 'flinkpy_test_greeting'"):
        collected(environment(cluster), greet)


def test_jobs_that_require_different_versions_run_at_the_same_time_in_different_processes(
    start: Callable[..., RunningCluster], packages: Callable[[str], tuple[str, str]], tmp_path: Path
) -> None:
    cluster = start(num_task_executors=2, slots=2)
    gate = Gate(tmp_path)
    held = environment(cluster, 1)
    held.set_python_requirements(*packages("1.0"))
    held.from_sequence(1, 3).map(greet).map(lambda pair: 3).map(gate.pass_at(3)).print()
    client = held.execute_async("held")
    gate.wait_for_arrival()
    env = environment(cluster, 1)
    env.set_python_requirements(*packages("2.0"))
    results = collected(env, greet)
    assert {text for text, _ in results} == {"hello 2.0"}
    assert {pid for _, pid in results}.isdisjoint(gate.arrivals)
    gate.open()
    client.get_job_execution_result().result()


def test_the_job_fails_with_the_message_of_pip_if_pip_fails(
    start: Callable[..., RunningCluster], packages: Callable[[str], tuple[str, str]], tmp_path: Path
) -> None:
    cluster = start(num_task_executors=1)
    _, directory = packages("1.0")
    requirements = tmp_path / "wrong.txt"
    requirements.write_text("flinkpy-test-greeting==9.9\n")
    env = environment(cluster, 1)
    env.set_python_requirements(str(requirements), directory)
    with pytest.raises(
        JobExecutionError, match=r"(?s)cannot install the requirements of the job: pip .*flinkpy-test-greeting==9\.9"
    ):
        collected(env, greet)


def test_another_version_of_a_dependency_of_flinkpy_is_refused(
    start: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    cluster = start(num_task_executors=1)
    directory = tmp_path / "packages"
    make_wheel(directory, "pyarrow", "0.0.1", "")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("pyarrow==0.0.1\n")
    env = environment(cluster, 1)
    env.set_python_requirements(str(requirements), str(directory))
    with pytest.raises(
        JobExecutionError, match=r"cannot install the requirements of the job: flinkpy itself uses pyarrow=="
    ):
        collected(env, greet)


def test_archives_are_unpacked_in_the_working_directory_of_functions(
    start: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    (tmp_path / "number.txt").write_text("42")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "number.txt", arcname="number.txt")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("inner/offset.txt", "100")

    def scaled(value: int) -> int:
        with open("model/number.txt") as number, open("data.zip/inner/offset.txt") as offset:
            return value * int(number.read()) + int(offset.read())

    cluster = start(num_task_executors=1)
    env = environment(cluster, 1)
    env.add_python_archive(str(tmp_path / "model.tar.gz"), "model")
    env.add_python_archive(str(tmp_path / "data.zip"))
    assert collected(env, scaled, 2) == [142, 184]
    # The next job runs in a new process.
    env = environment(cluster, 1)
    assert collected(env, lambda value: os.path.exists("model"), 1) == [False]


def test_modules_packages_and_zips_are_importable(start: Callable[..., RunningCluster], tmp_path: Path) -> None:
    (tmp_path / "one_module.py").write_text("VALUE = 1\n")
    package = tmp_path / "two_package"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 2\n")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "three_module.py").write_text("VALUE = 3\n")
    with zipfile.ZipFile(tmp_path / "four.zip", "w") as archive:
        archive.writestr("four_module.py", "VALUE = 4\n")

    def values(value: int) -> list[int]:
        import four_module
        import one_module
        import three_module
        import two_package

        return [one_module.VALUE, two_package.VALUE, three_module.VALUE, four_module.VALUE]

    env = environment(start(num_task_executors=1), 1)
    for path in ("one_module.py", "two_package", "plain", "four.zip"):
        env.add_python_file(str(tmp_path / path))
    assert collected(env, values, 1) == [[1, 2, 3, 4]]


def test_the_command_line_ships_files_and_requirements(
    start: Callable[..., RunningCluster], packages: Callable[[str], tuple[str, str]], tmp_path: Path
) -> None:
    requirements, directory = packages("3.0")
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "shipped_module.py").write_text("def sign(text):\n    return text + '!'\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import shipped_module\n"
        "from flinkpy.datastream import StreamExecutionEnvironment\n"
        "def greet(value):\n"
        "    import flinkpy_test_greeting\n"
        "    return shipped_module.sign(flinkpy_test_greeting.TEXT)\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "print(env.from_sequence(1, 1).map(greet).execute_and_collect(limit=1))\n"
    )
    cluster = start(num_task_executors=1)
    options = ["-pyreq", f"{requirements}#{directory}", "-pyfs", str(tmp_path / "shipped" / "shipped_module.py")]
    result = cluster.flinkpy("run", *options, str(program))
    assert result.returncode == 0, result.stderr
    assert result.stdout == "['hello 3.0!']\n"
    refused = cluster.flinkpy("run", "-pyexec", "/no/such/python", *options, str(program))
    assert "functions run inside the TaskExecutor processes" in refused.stderr
