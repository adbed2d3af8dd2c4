"""Benchmarks run rarely; these checks notice when a change of the code breaks one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Imports every module, and looks up what `python -m benchmarks` calls. Programs for PyFlink cannot be imported here.
IMPORT_ALL = """
import importlib, sys
from pathlib import Path

sys.path[:0] = [".", "benchmarks/programs"]
for path in sorted(Path("benchmarks").rglob("*.py")):
    text = path.read_text()
    compile(text, str(path), "exec")
    if "import pyflink" not in text and "from pyflink" not in text:
        importlib.import_module(".".join(path.with_suffix("").parts))
from benchmarks.__main__ import BENCHMARKS

for module, function in BENCHMARKS.values():
    assert callable(getattr(importlib.import_module(module), function)), (module, function)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)


def test_every_benchmark_can_be_imported() -> None:
    done = run("-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "importing a benchmark runs nothing"


def test_every_operator_of_the_micro_benchmark_runs() -> None:
    done = run("-m", "benchmarks.micro_operators", "--rows", "64")
    assert done.returncode == 0, done.stderr
    title, *rates = done.stdout.splitlines()
    assert title.startswith("work") and len(rates) == 9
