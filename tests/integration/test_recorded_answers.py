"""Generated programs give the results of PyFlink 2.3.0: windows, timers, joins, reduce and side outputs, with late
records.

`tools/record_pyflink_answers.py` recorded the results, and `make differential` computes them again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]


def recorded(name: str) -> list[list[Any]]:
    return json.loads((TESTS / "recorded" / name).read_text())["answers"]


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.differential)])
def test_programs_give_the_results_recorded_from_pyflink(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(TESTS / "differential")])
    assert_same_answers(recorded("pyflink_answers.json"), tmp_path, {"state.backend.type": backend})


def test_programs_in_batch_mode_give_the_results_recorded_from_pyflink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(TESTS / "differential")])
    assert_same_answers(recorded("pyflink_batch_answers.json"), tmp_path, {"execution.runtime-mode": "BATCH"})


def assert_same_answers(answers: list[list[Any]], directory: Path, settings: dict[str, str]) -> None:
    from answers import flinkpy_answers

    ours = flinkpy_answers([case for case, _ in answers], directory, settings)
    differing = [
        f"case {number}: {case['program']} {case['parameters']}\n  records {case['records']}\n"
        f"  theirs {their}\n  ours   {our}"
        for number, ((case, their), our) in enumerate(zip(answers, ours, strict=True))
        if their != our
    ]
    assert not differing, f"{len(differing)} of {len(answers)} differ\n" + "\n".join(differing[:5])
