from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from flinkpy.client.user_artifacts import LOCAL_PATH, read_artifact
from flinkpy.common import Configuration, Types
from flinkpy.common.errors import (
    InputNotFoundError,
    JobSubmissionError,
    TypeMismatchError,
    UnsupportedOperationError,
    UserError,
)
from flinkpy.datastream import CheckpointingMode, StreamExecutionEnvironment


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


def test_given_configuration_overrides_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text("parallelism:\n  default: 3\npipeline.name: from file\n")
    monkeypatch.setenv("FLINKPY_CONF_DIR", str(tmp_path))

    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_integer("parallelism.default", 5))
    env.from_sequence(1, 2).print()

    assert env.get_parallelism() == 5
    assert env.generate_job_graph().name == "from file"


def test_parallelism_defaults_to_the_cores_on_an_embedded_cluster_only(env: StreamExecutionEnvironment) -> None:
    assert env.get_parallelism() == min(os.cpu_count() or 1, 8)
    env.configure(Configuration().set_string("jobmanager.rpc.address", "somewhere"))
    assert env.get_parallelism() == 1
    env.configure(Configuration().set_string("execution.target", "local"))
    assert env.get_parallelism() == min(os.cpu_count() or 1, 8)
    env.set_parallelism(6)
    assert env.get_parallelism() == 6


def test_parallelism_applies_to_operators_created_afterwards(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2)
    stream = env.from_sequence(1, 2)
    env.set_parallelism(3)
    stream.map(str)

    assert [vertex.parallelism for vertex in env.generate_job_graph().vertices] == [2, 3]


def test_buffer_timeout_is_written_to_the_configuration(env: StreamExecutionEnvironment) -> None:
    assert env.get_buffer_timeout() == 100
    assert env.set_buffer_timeout(0).get_buffer_timeout() == 0
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert env.set_buffer_timeout(5).get_buffer_timeout() == 5
    with pytest.raises(ValueError, match="-1"):
        env.set_buffer_timeout(-2)


def test_job_contains_configuration_and_origin(env: StreamExecutionEnvironment) -> None:
    env.get_config().set_global_job_parameters({"threads": "4"})
    env.from_sequence(1, 2).print()
    job_graph = env.generate_job_graph("my job")

    assert job_graph.name == "my job"
    assert job_graph.configuration.entries["pipeline.global-job-parameters.threads"] == "4"
    assert job_graph.python_version == ".".join(map(str, sys.version_info[:3]))
    assert job_graph.working_directory == os.getcwd()
    assert len(job_graph.job_id) == 32


def test_job_id_can_be_configured(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string("$internal.pipeline.job-id", "AB" * 16))
    env.from_sequence(1, 2).print()
    assert env.generate_job_graph().job_id == "ab" * 16

    env.configure(Configuration().set_string("$internal.pipeline.job-id", "nonsense"))
    env.from_sequence(1, 2).print()
    with pytest.raises(JobSubmissionError, match="32 hex digits"):
        env.generate_job_graph()


@pytest.mark.parametrize(
    "ask",
    [
        lambda env: env.configure(Configuration().set_string("state.changelog.enabled", "true")),
        lambda env: env.configure(Configuration().set_string("state.backend.changelog.enabled", "true")),
        lambda env: env.enable_changelog_state_backend(True),
    ],
)
def test_changelog_backend_is_refused(
    env: StreamExecutionEnvironment, ask: Callable[[StreamExecutionEnvironment], None]
) -> None:
    ask(env)
    env.from_sequence(1, 2).print()

    assert env.is_changelog_state_backend_enabled()
    with pytest.raises(UnsupportedOperationError, match="no changelog state backend"):
        env.generate_job_graph()


def test_changelog_backend_may_be_disabled(env: StreamExecutionEnvironment) -> None:
    env.enable_changelog_state_backend(True).enable_changelog_state_backend(False)
    env.from_sequence(1, 2).print()

    assert env.is_changelog_state_backend_enabled() is False
    assert len(env.generate_job_graph().vertices) == 1


def test_checkpointing_options_travel_with_the_job(env: StreamExecutionEnvironment) -> None:
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    env.from_sequence(1, 2).print()

    entries = env.generate_job_graph().configuration.entries
    assert entries["execution.checkpointing.interval"] == "500 ms"
    assert entries["execution.checkpointing.mode"] == "AT_LEAST_ONCE"
    assert env.get_checkpoint_interval() == 500
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_interval_alone_keeps_the_configured_mode(env: StreamExecutionEnvironment) -> None:
    env.get_checkpoint_config().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)

    env.enable_checkpointing(500)

    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_unaligned_checkpoints_are_refused_behind_a_custom_partitioner(env: StreamExecutionEnvironment) -> None:
    def build() -> None:
        env.from_sequence(1, 2).partition_custom(lambda key, n: key % n, lambda value: value).map(str).name("Behind")

    env.enable_checkpointing(500).get_checkpoint_config().enable_unaligned_checkpoints()
    build()
    with pytest.raises(UnsupportedOperationError, match=r"operator 'Behind' .* custom partitioner"):
        env.generate_job_graph()

    env.get_checkpoint_config().set_force_unaligned_checkpoints()
    assert env.is_unaligned_checkpoints_enabled() and env.is_force_unaligned_checkpoints()
    assert env.generate_job_graph().vertices


def test_collection_is_checked_against_its_type(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(TypeMismatchError, match="record 1: 'x'"):
        env.from_collection([1, "x"], Types.INT())
    for wrong in ("text", 3, {"a": 1}):
        with pytest.raises(TypeError, match="from_collection needs a list"):
            env.from_collection(wrong)  # type: ignore[arg-type]


def test_jars_are_accepted_with_a_warning(env: StreamExecutionEnvironment) -> None:
    with pytest.warns(UserWarning, match="no effect"):
        env.add_jars("file:///x.jar")
    with pytest.warns(UserWarning, match="no effect"):
        env.add_jars("file:///y.jar", "file:///z.jar")
    assert env._configuration.get_string("pipeline.jars", "") == "['file:///x.jar', 'file:///y.jar', 'file:///z.jar']"


def test_path_of_the_current_interpreter_is_accepted(env: StreamExecutionEnvironment) -> None:
    env.set_python_executable(sys.executable)


def test_files_are_shipped_by_content(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    module = tmp_path / "helper.py"
    module.write_text("X = 1\n")
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("Y = 2\n")
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a")
    env.add_python_file(str(module))
    env.add_python_file(str(module))
    env.add_python_file(str(package))
    env.add_python_archive(str(archive), "data")
    env.register_cached_file(str(module), "helper", executable=True)
    env.from_sequence(1, 2).print()

    artifacts = env.generate_job_graph().artifacts

    assert [(a.name, a.kind) for a in artifacts] == [
        ("helper.py", "PYTHON_FILE"),
        ("pkg.zip", "PYTHON_FILE"),
        ("data.zip", "PYTHON_ARCHIVE"),
        ("helper", "CACHED_FILE"),
    ]
    assert artifacts[2].attributes["target_dir"] == "data"
    assert artifacts[3].attributes["executable"] == "true"
    assert artifacts[0].attributes[LOCAL_PATH] == str(module)
    assert read_artifact(artifacts[0]) == b"X = 1\n"
    zipped = read_artifact(artifacts[1])
    assert zipped == read_artifact(artifacts[1])
    assert zipfile.ZipFile(BytesIO(zipped)).namelist() == ["pkg/__init__.py"]


def test_files_can_be_set_in_the_configuration(tmp_path: Path) -> None:
    module = tmp_path / "helper.py"
    module.write_text("X = 1\n")
    archive = tmp_path / "data.zip"
    zipfile.ZipFile(archive, "w").close()
    configuration = Configuration().set_string("python.files", str(module))
    configuration.set_string("python.archives", f"{archive}#there")
    env = StreamExecutionEnvironment(configuration)
    env.from_sequence(1, 2).print()

    artifacts = env.generate_job_graph().artifacts

    assert [artifact.name for artifact in artifacts] == ["helper.py", "data.zip"]
    assert artifacts[1].attributes["target_dir"] == "there"


def test_untyped_streams_are_refused_if_generic_types_are_disabled(env: StreamExecutionEnvironment) -> None:
    env.get_config().disable_generic_types()
    env.from_sequence(1, 2).map(str, Types.STRING()).print()
    assert env.generate_job_graph().vertices

    env.from_sequence(1, 2).map(str).name("Untyped").print()
    with pytest.raises(JobSubmissionError, match="operator 'Untyped' has no declared output type"):
        env.generate_job_graph()


def test_error_names_a_file_that_does_not_exist(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match=r"missing\.py"):
        env.add_python_file(str(tmp_path / "missing.py"))
    with pytest.raises(UserError, match="add_python_archive"):
        env.add_python_archive(str(tmp_path / "x.rar"))
