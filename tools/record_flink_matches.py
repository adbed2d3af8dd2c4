"""Answer queries with MATCH_RECOGNIZE by Flink and keep its rows, which tests compare.

    python tools/record_flink_matches.py

Reads the rows and the queries of tests/recorded/flink_matches.json and writes the answers into it. Needs Java 17; makes
the environment of PyFlink on first use.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.peers import pyflink_python  # noqa: E402

RECORDED = ROOT / "tests" / "recorded" / "flink_matches.json"
PROGRAM = ROOT / "tests" / "differential" / "java" / "RecordMatches.java"
OPENED = ("java.lang", "java.util", "java.time", "java.math", "java.nio")
TABLE = """CREATE TABLE e (
  id INT, k STRING, price INT, tax INT, amount DOUBLE, name STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'csv.null-literal' = '')"""


def main() -> None:
    recorded = json.loads(RECORDED.read_text())
    site = next((pyflink_python().parents[1] / "lib").glob("python*/site-packages"))
    jars = f"{site / 'pyflink' / 'lib'}/*"
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    with tempfile.TemporaryDirectory() as directory:
        rows = Path(directory) / "rows.csv"
        with rows.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(recorded["rows"])
        statements = Path(directory) / "statements"
        queries = [case["sql"] for case in recorded["cases"]]
        statements.write_text("\0".join([TABLE.format(path=rows), *queries]))
        subprocess.run(["javac", "-cp", jars, "-d", directory, str(PROGRAM)], check=True)
        command = ["java", *opened, "-cp", f"{jars}:{directory}", "RecordMatches", str(statements)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(queries) or any("rows" not in each for each in answers):
        raise SystemExit(f"not all queries have an answer: {[each for each in answers if 'rows' not in each][:3]}")
    lines = [
        f'{{"sql": {json.dumps(sql)},\n "rows": {json.dumps(each["rows"])}}}' for sql, each in zip(queries, answers)
    ]
    given = ",\n".join(map(json.dumps, recorded["rows"]))
    RECORDED.write_text(f'{{"rows": [\n{given}\n],\n"cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{len(answers)} answers")


if __name__ == "__main__":
    main()
