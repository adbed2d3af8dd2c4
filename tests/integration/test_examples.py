"""The examples run unchanged, each in a process with an embedded cluster, and print their documented output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PRINTED = {
    "sessions.py": ["(ada,1)", "(ada,2)", "(ada,3)", "(bob,1)", "(bob,2)"],
    "sql.py": [
        "00:00:00  item 4: 238 pieces",
        "00:00:00  item 5: 231 pieces",
        "00:00:10  item 8: 243 pieces",
        "00:00:10  item 9: 265 pieces",
        "00:00:20  item 5: 241 pieces",
        "00:00:20  item 8: 246 pieces",
        "00:00:30  item 3: 261 pieces",
        "00:00:30  item 4: 262 pieces",
        "00:00:40  item 4: 240 pieces",
        "00:00:40  item 5: 257 pieces",
    ],
    "windows.py": [
        "+I[lamp, -5000, 5000, 1, 5]",
        "+I[lamp, 0, 10000, 1, 5]",
        "+I[vase, -5000, 5000, 1, 10]",
        "+I[vase, 0, 10000, 3, 12]",
        "+I[vase, 25000, 35000, 1, 30]",
        "+I[vase, 30000, 40000, 1, 30]",
        "+I[vase, 5000, 15000, 2, 12]",
        "lamp: at most 5 until second 10",
        "vase: at most 12 until second 10",
        "vase: at most 30 until second 40",
    ],
}


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_its_documented_output(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.returncode == 0, done.stderr
    # Several subtasks of a sink print with their number as a prefix and in any order.
    assert sorted(line.partition("> ")[2] or line for line in done.stdout.splitlines()) == PRINTED[name]
    assert done.stderr == ""
