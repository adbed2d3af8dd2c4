"""Generated programs give what PyFlink 2.3.0 gave: windows, timers, joins, reduce and side outputs, with late records.

`tools/record_pyflink_answers.py` asked it; `make differential` asks it anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
RECORDED: list[list[Any]] = json.loads((TESTS / "recorded" / "pyflink_answers.json").read_text())["answers"]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_programs_give_what_pyflink_gave(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(TESTS / "differential")])
    from engines import flinkpy_answers

    ours = flinkpy_answers([case for case, _ in RECORDED], tmp_path, {"state.backend.type": backend})

    differing = [
        f"case {number}: {case['program']} {case['parameters']}\n  records {case['records']}\n"
        f"  theirs {their}\n  ours   {our}"
        for number, ((case, their), our) in enumerate(zip(RECORDED, ours, strict=True))
        if their != our
    ]
    assert not differing, f"{len(differing)} of {len(RECORDED)} differ\n" + "\n".join(differing[:5])
