from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.common.java_runtime import find_java, java_obstacle, major_version


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("command not found", 0),
    ],
)
def test_versions_are_parsed_from_the_output_of_java(text: str, major: int) -> None:
    assert major_version(text) == major


def fake_java(directory: Path, printed: str) -> None:
    path = directory / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    path.chmod(0o755)


def test_an_old_java_is_named_with_the_version_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java()
    assert found is not None and found.major == 11
    obstacle = java_obstacle()
    assert obstacle is not None
    assert f"{tmp_path}/bin/java is Java 11: install Java 17 (on Debian: apt install" in obstacle


def test_a_missing_java_is_reported_with_the_version_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() is None
    obstacle = java_obstacle()
    assert obstacle is not None and "there is no java on the PATH: install Java 17" in obstacle


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    obstacle = java_obstacle()
    assert obstacle is not None and f"JAVA_HOME is {tmp_path}, which has no bin/java" in obstacle


def test_a_recent_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_obstacle() is None
