"""Failpoints: faults at named places, for other tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import flinkpy
from flinkpy.common import failpoints
from flinkpy.common.failpoints import FAILPOINTS, failpoint

NAME = "metadata.before_rename"


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    failpoints.arm("")


def test_a_point_that_is_not_armed_does_nothing():
    failpoints.arm("state_file.before_sync=error")
    failpoint(NAME)


def test_an_armed_point_fails_every_time():
    failpoints.arm(f"{NAME}=error")
    for _ in range(2):
        with pytest.raises(OSError, match=NAME):
            failpoint(NAME)


def test_a_point_armed_for_one_hit_fails_then_and_only_then():
    failpoints.arm(f"{NAME}=full@2")
    failpoint(NAME)
    with pytest.raises(OSError, match="No space left"):
        failpoint(NAME)
    failpoint(NAME)


def test_a_point_with_tokens_fails_once_per_token(tmp_path, monkeypatch):
    monkeypatch.setenv(failpoints.TOKENS_VARIABLE, str(tmp_path))
    (tmp_path / f"{NAME}.1").touch()
    (tmp_path / "metadata.before_renamed").touch()
    failpoints.arm(f"{NAME}=error")
    with pytest.raises(OSError, match=NAME):
        failpoint(NAME)
    failpoint(NAME)
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.before_renamed"]


@pytest.mark.parametrize("wrong", ["no.such.point=crash", f"{NAME}=explode", f"{NAME}", f"{NAME}=crash@soon"])
def test_an_invalid_specification_is_refused(wrong):
    with pytest.raises(ValueError, match="is not a failpoint"):
        failpoints.arm(wrong)


def test_the_environment_arms_a_process_and_a_crash_kills_it():
    code = f"from flinkpy.common.failpoints import failpoint; failpoint({NAME!r})"
    result = subprocess.run([sys.executable, "-c", code], env={"FLINKPY_FAILPOINTS": f"{NAME}=crash"}, check=False)
    assert result.returncode == -9


def test_the_table_contains_exactly_the_points_in_the_code():
    passed = set()
    for path in Path(flinkpy.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        passed.update(re.findall(r'failpoint\("([a-z_.]+)"\)', text))
        # The steps of writing a file atomically, which are named by their caller.
        steps = re.findall(r'failpoint\(f"\{(?:self\._steps|step_names)\}(\.[a-z_]+)"\)', text)
        passed.update(f"{kind}{step}" for kind in ("state_file", "metadata", "archive") for step in steps)
    assert passed == set(FAILPOINTS)
