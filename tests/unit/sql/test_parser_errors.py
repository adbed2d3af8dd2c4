"""Errors of the parser: Flink's words, the place with a caret, and advice."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import SqlParseError, UserError
from flinkpy.sql.parser import parse_expression, parse_query, parse_statement, parse_statements


def error_of(text: str) -> SqlParseError:
    with pytest.raises(SqlParseError) as raised:
        parse_statements(text)
    return raised.value


def test_message_has_flinks_words_and_a_caret_under_the_culprit() -> None:
    error = error_of("SELECT a,\n       b\nFROM t\nWHERE a = = 1")

    lines = error.message.splitlines()
    assert lines[0] == 'SQL parse failed. Encountered "=" at line 4, column 11.'
    assert lines[1] == "Was expecting one of:"
    assert '"CASE" ...' in error.message
    assert "<IDENTIFIER> ..." in error.message
    assert lines[-2:] == ["   4 | WHERE a = = 1", "     |           ^"]
    assert error.details == {"line": "4", "column": "11"}
    assert isinstance(error, UserError)


def test_end_of_text_is_named() -> None:
    assert 'Encountered "<EOF>" at line 1, column 14.' in error_of("SELECT a FROM").message


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("SELEC a FROM t", 'Did you mean "SELECT"?'),
        ("SELECT a FORM t", 'Did you mean "FROM" instead of "FORM"?'),
        ("SELECT a FROM t WEHRE a > 1", 'Did you mean "WHERE" instead of "WEHRE"?'),
        ("SELECT a FROM t GRUOP BY a", 'Did you mean "GROUP" instead of "GRUOP"?'),
        ("SELECT a FROM t ORDER BY a LIMT 5", 'Did you mean "LIMIT"?'),
        ("CREATE TABEL t (a INT)", 'Did you mean "TABLE"?'),
        ("CREATE TABLE t (a INT, WATERMRK FOR a AS a)", 'Did you mean "WATERMARK" instead of "WATERMRK"?'),
        ("SHOW TABELS", 'Did you mean "TABLES"?'),
        ("EXPLAIN CHANGLOG_MODE SELECT 1", 'Did you mean "CHANGELOG_MODE"?'),
    ],
)
def test_mistyped_keywords_are_recognised(text: str, advice: str) -> None:
    assert error_of(text).message.splitlines()[-1] == advice


def test_reserved_keyword_as_name_is_explained() -> None:
    message = error_of("SELECT value FROM t").message

    assert message.endswith('"value" is a reserved keyword. To use it as a name, write it in backticks: `value`')
    assert parse_statement("SELECT `value` FROM t")


def test_double_quotes_are_explained() -> None:
    assert error_of('SELECT "a" FROM t').message.endswith("Strings are written in single quotes, names in backticks.")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("SELECT 'abc", "The string that begins here has no end."),
        ("SELECT x'0a", "The string that begins here has no end."),
        ("SELECT 1 /* one", "The comment that begins here has no end."),
        ("SELECT `a\n`", "A name in backticks ends in the same line and is not empty."),
    ],
)
def test_text_without_end_is_a_lexical_error(text: str, advice: str) -> None:
    message = error_of(text).message

    assert message.startswith("SQL parse failed. Lexical error at line 1, column ")
    assert message.endswith(advice)


def test_place_counts_each_kind_of_line_break_once() -> None:
    assert "at line 4, column 2." in error_of("SELECT\r\n1\r\n\r #").message


def test_long_lines_are_cut_around_the_culprit() -> None:
    text = f"SELECT {'a, ' * 200}a FROM t WHERE b >> {'c + ' * 200}d"
    marked, carets = error_of(text).message.splitlines()[-2:]

    assert len(marked) < 200
    assert marked.startswith("   1 | ...")
    assert marked.endswith("...")
    assert marked[carets.index("^")] == ">"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 20_000,
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "SELECT " + "- " * 5_000 + "1",
        "SELECT " + "f(" * 5_000 + "1" + ")" * 5_000,
        "SELECT " + "CASE WHEN a THEN " * 5_000 + "1" + " END" * 5_000,
        "SELECT * FROM " + "(SELECT * FROM " * 5_000 + "t" + ")" * 5_000,
        "SELECT * FROM " + "(" * 5_000 + "t" + ")" * 5_000,
        "SELECT CAST(a AS " + "ARRAY<" * 5_000 + "INT" + ">" * 5_000 + ")",
        "SELECT * FROM t GROUP BY " + "GROUPING SETS (" * 5_000 + "a" + ")" * 5_000,
    ],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    assert "nested deeper than 100 levels" in error_of(text).message


def test_fifty_levels_of_subqueries_are_parsed() -> None:
    text = "SELECT * FROM (" * 45 + "SELECT 1" + ")" * 45

    assert parse_query(text)


def test_long_flat_texts_are_parsed() -> None:
    condition = parse_expression(" OR ".join(f"a = {number}" for number in range(5_000)))

    assert len(condition.operands) == 5_000  # type: ignore[attr-defined]
    assert parse_expression(" + ".join(["a"] * 5_000))
    assert parse_query(" UNION ALL ".join(["SELECT 1"] * 2_000))


def test_error_in_the_second_statement_has_its_place_in_the_whole_text() -> None:
    assert "at line 2, column 14." in error_of("SELECT 1;\nSELECT a FROM;").message


def test_only_one_statement_is_allowed_where_one_is_expected() -> None:
    with pytest.raises(SqlParseError, match='Encountered "SELECT" at line 1, column 11'):
        parse_statement("SELECT 1; SELECT 2")


def test_query_is_expected_where_a_query_is_asked_for() -> None:
    with pytest.raises(SqlParseError, match='Encountered "INSERT"'):
        parse_query("INSERT INTO t SELECT 1")


@pytest.mark.parametrize("begin", ["", "'", "E'", "`", "/*", "--", "x'", "_u'", "{"])
@pytest.mark.parametrize("piece", ["1", "a", "*", "''", "``", ".", "\\\\n", " "])
def test_long_tokens_take_linear_time(begin: str, piece: str) -> None:
    """A lexer with quadratic time would take minutes here, and end in the time limit of the suite."""
    try:
        parse_statements(f"SELECT {begin}{piece * 100_000}")
    except SqlParseError as error:
        assert len(error.message) < 4_000
