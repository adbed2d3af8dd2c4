"""Positions of nodes."""

from __future__ import annotations

from flinkpy.sql.parser import parse_expression, parse_query, parse_statements
from flinkpy.sql.parser.nodes import BinaryOperation, Position, Select, walk


def test_position_is_the_range_of_the_text() -> None:
    query = parse_query("SELECT a,\n  b + c * d AS e\nFROM t")

    assert isinstance(query, Select)
    assert query.position == Position(1, 1, 3, 6)
    assert query.items[1].position == Position(2, 3, 2, 16)
    total = query.items[1].expression
    assert isinstance(total, BinaryOperation)
    assert total.position == Position(2, 3, 2, 11)
    assert total.right.position == Position(2, 7, 2, 11)


def test_every_node_has_a_position() -> None:
    text = """
        INSERT INTO sink SELECT window_start, COUNT(*) FILTER (WHERE a > 1) OVER w, CASE a WHEN 1 THEN 'x' ELSE b[1] END
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) AS w (x, y)
        LEFT JOIN LATERAL TABLE(f(y)) ON TRUE
        WHERE a IN (SELECT b FROM u) AND c BETWEEN 1 AND 2 OR d IS NOT NULL
        GROUP BY GROUPING SETS ((a), ()) WINDOW w AS (PARTITION BY a ORDER BY b ROWS 1 PRECEDING);
        CREATE TABLE t (a ROW<b INT NOT NULL>, c AS a.b, WATERMARK FOR d AS d, PRIMARY KEY (a) NOT ENFORCED)
        PARTITIONED BY (a) WITH ('k' = 'v') LIKE u (INCLUDING ALL)
    """
    for statement in parse_statements(text):
        for node in walk(statement):
            assert node.position.line > 0, node
            assert (node.position.end_line, node.position.end_column) >= (node.position.line, node.position.column), (
                node
            )


def test_position_is_not_part_of_equality() -> None:
    assert parse_expression("a +  b") == parse_expression("a + b")
    assert parse_expression("a + b") != parse_expression("a - b")
