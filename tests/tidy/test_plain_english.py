"""Docstrings, comments and test names are plain English: patterns of unclear sentences that a program can recognise.

A reviewer must still read them, because most unclear sentences match no pattern.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src/flinkpy", "tests", "benchmarks", "tools", "examples")

RULES = {
    # The first sentence should say what the thing is or does. One that begins like this hides its subject.
    "a docstring begins without its subject": re.compile(
        r'\n *r?"""(?:Of|What|That|Where|Whom|Whose|Who|Whoever|Whatever|So that|So many|Also where|As (?:a|the))\b'
    ),
    # Only the first line of a block of comments: a sentence may continue with these words in the next line.
    "a comment begins without its subject": re.compile(
        r"\n[ ]*[^ #\n][^\n]*\n[ ]*#:? (?:Of|What|That|Whom|Whose|Who|Whoever|Whatever|So that|So many|As (?:a|one))\b"
    ),
    "a phrase that lets the reader guess who does what": re.compile(
        r"\b(?:[Ii]s said|[Cc]omes of|[Oo]f whom|[Tt]o whom|[Ww]hoever|[Ss]o many|[Nn]obody says)\b"
    ),
    "the name of a test is not a statement": re.compile(r"\bdef test_(?:of|what|that|where|whom|whose|who|so_that)_"),
}


@cache
def texts() -> dict[str, str]:
    """Returns the text of every module that is not generated, by its path."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if "_proto" not in path.parts and path != Path(__file__).resolve()
    }


@pytest.mark.parametrize("rule", RULES)
def test_sentences_are_plain(rule: str) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.end() - 1) + 1}: {match.group().splitlines()[-1].strip()}"
        for name, text in texts().items()
        for match in RULES[rule].finditer(f"\n{text}")
    ]
    assert not found, f"{rule}:\n" + "\n".join(found)
