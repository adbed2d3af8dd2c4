"""Texts that `unparse` writes."""

from __future__ import annotations

import pytest

from flinkpy.sql.parser import parse_expression, parse_query, unparse
from flinkpy.sql.parser.nodes import Identifier, Select, SelectItem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a+b*c", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("((a))", "a"),
        ("a || b + c", "a || b + c"),
        ("(a = b) is null", "a = b IS NULL"),
        ("a = (b is null)", "a = (b IS NULL)"),
        ("not (a and b)", "NOT (a AND b)"),
        ("(a or b) and c", "(a OR b) AND c"),
        ("- (-a)", "-(-a)"),
        ("substring(a from 1 for 2)", "substring(a, 1, 2)"),
        ("extract(day from a)", "extract(DAY FROM a)"),
        ("trim('x' from a)", "TRIM(BOTH 'x' FROM a)"),
        ("count(*) over (order by a desc)", "count(*) OVER (ORDER BY a DESC)"),
        ("`a`.b.`c d`", "`a`.b.`c d`"),
        ("'it''s'", "'it''s'"),
    ],
)
def test_expressions_have_only_the_parentheses_they_need(text: str, expected: str) -> None:
    assert unparse(parse_expression(text)) == expected


def test_names_get_backticks_where_they_need_them() -> None:
    query = Select(
        (SelectItem(Identifier.of("t", "order")), SelectItem(Identifier.of("a b")), SelectItem(Identifier.of("name")))
    )

    assert unparse(query) == "SELECT t.`order`, `a b`, name"


def test_query_is_written_on_one_line_without_comments() -> None:
    text = "select a, -- the first\n  b AS c from t /* all */\nwhere a > 1 fetch next 3 rows only"

    assert unparse(parse_query(text)) == "SELECT a, b AS c FROM t WHERE a > 1 LIMIT 3"


def test_long_chains_are_written_without_recursion() -> None:
    total = " + ".join(["a"] * 3_000)
    union = " UNION ALL ".join(["SELECT 1"] * 2_000)

    assert unparse(parse_expression(total)) == total
    assert unparse(parse_query(union)) == union
