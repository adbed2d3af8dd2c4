"""The same programs over generated inputs give the same results on PyFlink 2.3.0 and on flinkpy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from answers import Answers, flinkpy_answers, pyflink_answers
from cases import generate, in_batch_mode
from requirements import has_java, require

NUMBER = int(os.environ.get("DIFFERENTIAL_CASES", "220"))

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_generated_programs_give_the_same_on_pyflink_and_here(seed: int, mode: str, tmp_path: Path) -> None:
    require("Java", has_java(), "PyFlink runs on Java 17")
    from benchmarks.peers import pyflink_python

    cases = generate(seed, NUMBER)
    if mode == "BATCH":
        cases = in_batch_mode(cases)
    settings = {"execution.runtime-mode": mode}
    theirs = pyflink_answers(cases, pyflink_python(), tmp_path, settings)
    ours = flinkpy_answers(cases, tmp_path, settings)

    differing = describe_differences(cases, theirs, ours)
    assert not differing, f"DIFFERENTIAL_SEED={seed}: {len(differing)} of {NUMBER} differ\n" + "\n".join(differing[:5])


def describe_differences(cases: list[dict], theirs: Answers, ours: Answers) -> list[str]:
    return [
        f"case {number}: {case['program']} {case['parameters']}\n  records {case['records']}\n"
        f"  theirs {their}\n  ours   {our}"
        for number, (case, their, our) in enumerate(zip(cases, theirs, ours, strict=True))
        if their != our
    ]
