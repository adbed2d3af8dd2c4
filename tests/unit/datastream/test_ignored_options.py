"""A program gets a warning about options without effect. An option can also register cached files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flinkpy.client.user_artifacts import UserArtifacts
from flinkpy.common import Configuration, Types
from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import key_notices
from flinkpy.configuration.pipeline_options import CACHED_FILES
from flinkpy.datastream import StreamExecutionEnvironment


@pytest.fixture(autouse=True)
def _nobody_was_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_notices, "_seen", set())


def graph_of(options: dict[str, str], configured: dict[str, str] | None = None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.configure(Configuration.from_dict(configured or {}))
    env.from_collection([1], Types.INT()).print()
    env.generate_job_graph()


def test_options_without_effect_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    options = {"taskmanager.network.memory.buffer-debloat.enabled": "true", "parallelism.default": "1"}
    with caplog.at_level(logging.WARNING):
        graph_of(options, {"execution.checkpointing.file-merging.enabled": "true"})
        graph_of(options)

    (record,) = caplog.records
    assert record.getMessage() == (
        "these options of Flink have no effect in flinkpy: execution.checkpointing.file-merging.enabled, "
        "taskmanager.network.memory.buffer-debloat.enabled"
    )


def cached(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    artifacts = UserArtifacts()
    found = artifacts.collect(Configuration.from_dict({CACHED_FILES.key: text}))
    return {one.name: (one.attributes["local_path"], dict(one.attributes)) for one in found}


def test_files_can_be_cached_by_an_option(tmp_path: Path) -> None:
    plain, script = tmp_path / "plain.txt", tmp_path / "run.sh"
    plain.write_text("7")
    script.write_text("echo 7")
    found = cached(f"name:plain,path:'file://{plain}'; name:run, path:{script}, executable:true")

    assert {name: path for name, (path, _) in found.items()} == {"plain": str(plain), "run": str(script)}
    assert [name for name, (_, attributes) in found.items() if "executable" in attributes] == ["run"]


def test_a_file_registered_by_the_program_overrides_the_option(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_text("1")
    other.write_text("2")
    artifacts = UserArtifacts()
    artifacts.add_cached_file(str(mine), "file", executable=False)
    (found,) = artifacts.collect(Configuration.from_dict({CACHED_FILES.key: f"name:file,path:{other}"}))

    assert found.attributes["local_path"] == str(mine)


@pytest.mark.parametrize(
    "text", ["name:x", "path:/tmp", "name:x,path:/tmp,mode:5", "name:x,path:/tmp,executable:maybe"]
)
def test_the_error_names_an_invalid_entry(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"pipeline\.cached-files: '.*' must be name:NAME,path:PATH"):
        cached(text)
