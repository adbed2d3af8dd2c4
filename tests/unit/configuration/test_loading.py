"""Configuration files, directories and -D."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import load_configuration
from flinkpy.configuration.loading import CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE


@pytest.fixture(autouse=True)
def _no_configuration_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE):
        monkeypatch.delenv(variable, raising=False)


def write(directory: Path, text: str) -> Path:
    path = directory / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nested_and_flat_keys_are_the_same(tmp_path: Path) -> None:
    write(tmp_path, "parallelism:\n  default: 4\nheartbeat.interval: 2 s\njobmanager:\n  rpc.port: 7000\n")
    assert load_configuration(tmp_path).to_dict() == {
        "parallelism.default": "4",
        "heartbeat.interval": "2 s",
        "jobmanager.rpc.port": "7000",
    }


def test_values_keep_their_spelling(tmp_path: Path) -> None:
    write(tmp_path, "a.b: 010\na.c: yes\na.d: [x, y]\na.e:\n")
    assert load_configuration(tmp_path).to_dict() == {"a.b": "010", "a.c": "yes", "a.d": "x;y", "a.e": ""}


def test_dynamic_properties_override_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "parallelism.default: 4\n")
    configuration = load_configuration(path, ["parallelism.default=8", "pipeline.object-reuse", "a=b=c"])
    assert configuration.to_dict() == {"parallelism.default": "8", "pipeline.object-reuse": "true", "a": "b=c"}


def test_the_directory_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "parallelism.default: 4\n")
    monkeypatch.setenv("FLINK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv(DYNAMIC_PROPERTIES_VARIABLE, "heartbeat.interval=3 s\nparallelism.default=5")
    assert load_configuration().to_dict() == {"parallelism.default": "5", "heartbeat.interval": "3 s"}


def test_a_configuration_without_sources_is_empty() -> None:
    assert load_configuration().to_dict() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("- a\n- b\n", "must contain `key: value` lines"),
        ("a.b: 1\na:\n  b: 2\n", "contains the key `a.b` twice"),
        ("a:\n  - b: 1\n", "nested elements"),
    ],
)
def test_a_file_of_the_wrong_form_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_configuration(tmp_path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"config.yaml .*does not exist"):
        load_configuration(tmp_path)


def test_a_dynamic_property_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="key=value"):
        load_configuration(None, ["=3"])
