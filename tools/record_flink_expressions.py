"""Evaluate SQL expressions with Flink and keep its answers, which unit tests compare with.

    python tools/record_flink_expressions.py

Reads tests/recorded/flink_expressions.sql and writes flink_expressions.jsonl beside it. Needs Java 17; makes the
environment of PyFlink on first use.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.peers import pyflink_python  # noqa: E402

RECORDED = ROOT / "tests" / "recorded"
PROGRAM = ROOT / "tests" / "differential" / "java" / "RecordExpressions.java"
OPENED = ("java.lang", "java.util", "java.time", "java.math", "java.nio")


def main() -> None:
    site = next((pyflink_python().parents[1] / "lib").glob("python*/site-packages"))
    jars = f"{site / 'pyflink' / 'lib'}/*"
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["javac", "-cp", jars, "-d", directory, str(PROGRAM)], check=True)
        command = ["java", *opened, "-cp", f"{jars}:{directory}", "RecordExpressions"]
        done = subprocess.run(
            [*command, str(RECORDED / "flink_expressions.sql")], check=True, capture_output=True, text=True
        )
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    (RECORDED / "flink_expressions.jsonl").write_text("".join(f"{line}\n" for line in answers))
    print(f"{len(answers)} answers")


if __name__ == "__main__":
    main()
