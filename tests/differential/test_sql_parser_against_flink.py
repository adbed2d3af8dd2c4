"""The parser accepts and rejects what Flink 2.3.0's own does, and writes texts that mean the same to Flink."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from flink_sql import flink_answers, flink_libraries, mutated, statements_of_checkout
from requirements import has_java, require

from flinkpy.sql.parser import SqlParseError, parse_statement, unparse
from tests.unit.sql.parser_corpus import entries, files

#: Statements that Flink's parser accepts and its validator refuses with the same words.
REFUSED_LATER = {"SELECT X'0'"}
#: Parts of statements that Flink writes as they were written, and `unparse` in one form: suffixes of types, ROW with
#: parentheses, escapes and continued strings, JDBC's functions, and a quantifier without its lower bound.
WRITTEN_IN_ONE_FORM = ("INT ARRAY", "ROW(x INT", "U&'", "E'tab", "'first' 'second'", "{fn ", "{,4}")
#: Mutants that may differ, in 1,000. Flink's grammar leaves some nonsense to its validator, such as EXISTS without a
#: query, and forbids TABLE arguments in nested calls, which is left to the planner here.
MAX_DIFFERENT_MUTANTS = 5

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def libraries() -> Path:
    require("Java", has_java(), "Flink runs on Java 17")
    return flink_libraries()


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return [statement for path in files() for statement, _ in entries(path.read_text())]


def is_accepted(statement: str) -> bool:
    try:
        parse_statement(statement)
    except SqlParseError:
        return False
    return True


def differences(statements: list[str], answers: list[str]) -> list[str]:
    pairs = zip(statements, answers, strict=True)
    return [f"{statement!r}\n  Flink: {answer[:200]}" for statement, answer in pairs if differs(statement, answer)]


def differs(statement: str, answer: str) -> bool:
    return is_accepted(statement) == answer.startswith("!")


def test_flink_accepts_and_rejects_the_statements_of_the_corpus(
    libraries: Path, corpus: list[str], tmp_path: Path
) -> None:
    statements = [statement for statement in corpus if statement not in REFUSED_LATER]

    found = differences(statements, flink_answers(statements, libraries, tmp_path))

    assert not found, "\n".join(found)


def test_flink_reads_written_statements_as_it_reads_the_original_ones(
    libraries: Path, corpus: list[str], tmp_path: Path
) -> None:
    accepted = [
        statement
        for statement in corpus
        if is_accepted(statement) and not any(part in statement for part in WRITTEN_IN_ONE_FORM)
    ]
    written = [unparse(parse_statement(statement)) for statement in accepted]

    answers = flink_answers([*accepted, *written], libraries, tmp_path)

    pairs = zip(accepted, answers[: len(accepted)], answers[len(accepted) :], strict=True)
    found = [f"{statement!r}\n  {one}\n  {other}" for statement, one, other in pairs if spelled(one) != spelled(other)]
    assert not found, "\n".join(found)


def spelled(tree: str) -> str:
    """Returns a tree of Flink's with one spelling for what it writes as it was written."""
    tree = re.sub(r"\s+", " ", tree)
    tree = re.sub(r"TIMESTAMP(\(\d\))? WITH LOCAL TIME ZONE(?! ')", r"TIMESTAMP_LTZ\1", tree)
    tree = re.sub(r"(SHOW [A-Z ]+) IN `", r"\1 FROM `", tree)
    # Hints: names with or without quotes.
    return re.sub(r"/\*\+.*?\*/", lambda hint: re.sub(r"[`']", "", hint.group()), tree)


def test_flink_accepts_and_rejects_mutated_statements(
    libraries: Path, corpus: list[str], seed: int, tmp_path: Path
) -> None:
    statements = mutated([statement for statement in corpus if is_accepted(statement)], 10_000, seed)

    found = differences(statements, flink_answers(statements, libraries, tmp_path))

    assert len(found) <= MAX_DIFFERENT_MUTANTS * 10, f"DIFFERENTIAL_SEED={seed}\n" + "\n".join(found)


def test_flinks_own_statements_are_accepted_and_rejected(libraries: Path, tmp_path: Path) -> None:
    checkout = os.environ.get("FLINK_CHECKOUT", "")
    require("FLINK_CHECKOUT", Path(checkout, "flink-table").is_dir(), "the directory of a checkout of Apache Flink")
    statements = statements_of_checkout(Path(checkout))

    found = differences(statements, flink_answers(statements, libraries, tmp_path))

    assert len(statements) > 1_000
    assert not found, f"{len(found)} of {len(statements)} differ\n" + "\n".join(found[:50])
