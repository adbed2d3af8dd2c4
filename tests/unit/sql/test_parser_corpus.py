"""Statements of our own with their trees and errors; see `parser_corpus`."""

from __future__ import annotations

from pathlib import Path

import pytest
from parser_corpus import entries, files, written

from flinkpy.sql.parser import SqlParseError, parse_statement, unparse


def statements_of(path: Path) -> list[str]:
    return [statement for statement, _ in entries(path.read_text())]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_statements_have_the_recorded_trees_and_errors(path: Path) -> None:
    assert written(statements_of(path)) == path.read_text()


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_statements_are_accepted_except_in_the_file_of_rejects(path: Path) -> None:
    accepted = []
    for statement in statements_of(path):
        try:
            parse_statement(statement)
        except SqlParseError:
            continue
        accepted.append(statement)

    assert accepted == ([] if path.stem == "rejects" else statements_of(path))


@pytest.mark.parametrize("path", [path for path in files() if path.stem != "rejects"], ids=lambda path: path.stem)
def test_unparsed_statements_parse_to_the_same_trees(path: Path) -> None:
    for statement in statements_of(path):
        tree = parse_statement(statement)
        assert parse_statement(unparse(tree)) == tree, statement


def test_corpus_has_no_statement_twice_and_does_not_shrink() -> None:
    statements = [statement for path in files() for statement in statements_of(path)]

    assert len(set(statements)) == len(statements)
    assert len(statements) >= 590
