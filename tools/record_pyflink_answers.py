"""Run generated programs on a real PyFlink and keep its answers, which the everyday tests compare with.

    python tools/record_pyflink_answers.py [--seed 1] [--cases 66]

Writes tests/recorded/pyflink_answers.json, with --batch pyflink_batch_answers.json. Needs Java 17; makes the
environment of PyFlink on first use.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "differential")]

from answers import pyflink_answers  # noqa: E402
from cases import generate, in_batch_mode  # noqa: E402

from benchmarks.peers import PYFLINK, pyflink_python  # noqa: E402

RECORDED = ROOT / "tests" / "recorded"
BATCH = {"execution.runtime-mode": "BATCH"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=66)
    parser.add_argument("--batch", action="store_true", help="in batch mode")
    options = parser.parse_args()
    cases = generate(options.seed, options.cases)
    if options.batch:
        cases = in_batch_mode(cases)
    with tempfile.TemporaryDirectory() as directory:
        answers = pyflink_answers(cases, pyflink_python(), Path(directory), BATCH if options.batch else None)
    lines = [json.dumps([case, answer], ensure_ascii=False) for case, answer in zip(cases, answers, strict=True)]
    text = ",\n".join(lines)
    path = RECORDED / ("pyflink_batch_answers.json" if options.batch else "pyflink_answers.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{{"peer": "{PYFLINK}", "seed": {options.seed}, "answers": [\n{text}\n]}}\n')
    print(f"{len(cases)} answers in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
