"""Generated syntax trees survive their way through text, and no text breaks the parser."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.sql.parser import SqlParseError, parse_expression, parse_query, parse_statement, parse_statements, unparse
from flinkpy.sql.parser import nodes as n
from flinkpy.sql.parser.lexer import tokenize
from flinkpy.sql.parser.tokens import KEYWORDS, RESERVED_KEYWORDS

PLAIN_NAMES = st.sampled_from(["a", "b2", "_x", "Order_Id", "name", "desc", "first", "t$1", "größe", "model", "final"])
AWKWARD_NAMES = st.sampled_from(["select", "Value", "two words", "dot.ted", "back`tick", "1st", "it's", "数", "-"])
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">="]) | st.sampled_from(
    ["IS DISTINCT FROM", "IS NOT DISTINCT FROM", "MEMBER OF", "NOT SUBMULTISET OF", "MULTISET UNION", "OVERLAPS"]
)
TESTS = st.sampled_from(["NULL", "TRUE", "FALSE", "UNKNOWN", "A SET", "EMPTY", "JSON VALUE", "JSON ARRAY"])


@st.composite
def identifiers(draw: st.DrawFn, parts: int = 3) -> n.Identifier:
    chosen = draw(st.lists(PLAIN_NAMES | AWKWARD_NAMES, min_size=1, max_size=parts))
    quoted = [part in AWKWARD or draw(st.booleans()) for part in chosen]
    return n.Identifier(tuple(chosen), tuple(quoted))


AWKWARD = {"select", "Value", "two words", "dot.ted", "back`tick", "1st", "it's", "-"}
SIMPLE = identifiers(parts=1)
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)


def tuples(of: st.SearchStrategy, least: int = 1, most: int = 3) -> st.SearchStrategy:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def maybe(of: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | of


QUALIFIERS = st.sampled_from(
    [
        n.IntervalQualifier("DAY"),
        n.IntervalQualifier("YEAR", 4, "MONTH"),
        n.IntervalQualifier("DAY", 3, "SECOND", 6),
        n.IntervalQualifier("SECOND", 2, None, 3),
        n.IntervalQualifier("HOUR", None, "MINUTE"),
    ]
)
UNITS = st.sampled_from([n.IntervalQualifier("DAY"), n.IntervalQualifier("SECOND", 2, None, 3)])

LITERALS = st.one_of(
    st.integers(0, 10**20).map(n.IntegerLiteral),
    st.sampled_from(["1.5", ".25", "3.", "0.10"]).map(n.DecimalLiteral),
    st.sampled_from(["1e3", "2.5E-3"]).map(n.DoubleLiteral),
    TEXTS.map(n.StringLiteral),
    st.binary(max_size=4).map(n.BinaryLiteral),
    st.sampled_from([True, False, None]).map(n.BooleanLiteral),
    st.just(n.NullLiteral()),
    TEXTS.map(n.DateLiteral),
    TEXTS.map(n.TimestampLiteral),
    st.builds(n.IntervalLiteral, TEXTS, QUALIFIERS, st.booleans()),
)
NULLABLE = st.sampled_from([None, True, False])


def types(children: st.SearchStrategy) -> st.SearchStrategy:
    fields = tuples(st.builds(n.RowField, SIMPLE, children, maybe(TEXTS)), 0)
    return st.one_of(
        st.builds(n.CollectionType, st.sampled_from(["ARRAY", "MULTISET"]), children, NULLABLE),
        st.builds(n.MapType, children, children, NULLABLE),
        st.builds(n.RowType, fields, NULLABLE),
        st.builds(n.StructuredType, TEXTS, fields, NULLABLE),
    )


TYPES = st.recursive(
    st.one_of(
        st.builds(n.SimpleType, st.sampled_from(["INT", "STRING", "DOUBLE", "VARIANT"]), st.just(()), NULLABLE),
        st.builds(n.SimpleType, st.just("DECIMAL"), st.sampled_from([(), (5,), (10, 2)]), NULLABLE),
        st.builds(n.SimpleType, st.just("TIMESTAMP WITH LOCAL TIME ZONE"), st.sampled_from([(), (3,)]), NULLABLE),
        st.builds(n.NamedType, identifiers(), NULLABLE),
        st.builds(n.RawType, TEXTS, TEXTS, NULLABLE),
    ),
    types,
    max_leaves=5,
)


def is_flattened(values: tuple[n.Expression, ...]) -> bool:
    return len(values) == 1 and isinstance(values[0], n.RowConstructor) and not values[0].explicit


def windows(children: st.SearchStrategy) -> st.SearchStrategy:
    bounds = st.sampled_from(["UNBOUNDED PRECEDING", "CURRENT ROW"]).map(n.FrameBound) | st.builds(
        n.FrameBound, st.sampled_from(["PRECEDING", "FOLLOWING"]), children
    )
    frames = st.builds(n.WindowFrame, st.sampled_from(["ROWS", "RANGE"]), bounds, maybe(bounds))
    partitions = tuples(children, 0).filter(lambda values: not is_flattened(values))
    return st.builds(n.WindowSpecification, maybe(SIMPLE), partitions, tuples(orders(children), 0), maybe(frames))


def orders(children: st.SearchStrategy) -> st.SearchStrategy:
    flags = st.sampled_from([None, True, False])
    return st.builds(n.OrderItem, children, flags, flags)


def calls(children: st.SearchStrategy) -> st.SearchStrategy:
    named = st.builds(n.NamedArgument, SIMPLE, children)
    return st.builds(
        n.FunctionCall,
        identifiers().filter(lambda name: name.parts[0].upper() != "FINAL" and name.parts != ("model",)),
        tuples(children | named),
        st.sampled_from([None, "DISTINCT", "ALL"]),
        within_group=tuples(orders(children), 0, 1),
        filter=maybe(children),
        ignore_nulls=NULLABLE,
        over=maybe(SIMPLE | windows(children)),
    )


def expressions(children: st.SearchStrategy) -> st.SearchStrategy:
    branches = tuples(st.builds(n.WhenBranch, tuples(children, 1, 2), children), 1, 2)
    lists = tuples(children).filter(lambda values: not isinstance(values[0], n.ScalarSubquery))
    return st.one_of(
        st.builds(n.UnaryOperation, st.sampled_from(["-", "+", "NOT"]), children),
        st.builds(n.BinaryOperation, OPERATORS, children, children),
        st.builds(n.LogicalOperation, st.sampled_from(["AND", "OR"]), tuples(children, 2)),
        st.builds(n.IsPredicate, children, TESTS, st.booleans()),
        st.builds(n.Between, children, children, children, st.booleans(), st.booleans()),
        st.builds(
            n.Like, children, children, maybe(children), st.booleans(), st.sampled_from(["LIKE", "RLIKE", "SIMILAR TO"])
        ),
        st.builds(n.InList, children, lists, st.booleans()),
        st.builds(n.RowConstructor, tuples(children, 2), st.booleans()),
        st.builds(n.CollectionConstructor, st.sampled_from(["ARRAY", "MAP", "MULTISET"]), tuples(children)),
        st.builds(n.ElementAccess, children, children),
        st.builds(n.FieldAccess, children, SIMPLE),
        st.builds(n.Case, maybe(children), branches, maybe(children)),
        st.builds(n.Cast, children, st.just(n.SimpleType("INT")), st.booleans()),
        st.builds(n.IntervalExpression, children, UNITS),
        st.builds(n.IntervalDifference, children, children, QUALIFIERS),
        st.builds(n.Trim, children, st.sampled_from(["BOTH", "LEADING"]), maybe(children)),
        st.builds(n.JsonValue, children, children, on_empty=st.builds(n.JsonBehavior, st.just("DEFAULT"), children)),
        st.builds(n.JsonObject, tuples(st.builds(n.JsonEntry, children, children)), NULLABLE),
        calls(children),
    )


EXPRESSIONS = st.recursive(LITERALS | identifiers(), expressions, max_leaves=6)
SMALL = st.recursive(LITERALS | identifiers(), expressions, max_leaves=2)

TABLES = st.recursive(
    st.builds(n.NamedTable, identifiers()),
    lambda children: st.one_of(
        st.builds(n.AliasedTable, st.builds(n.NamedTable, identifiers()), SIMPLE, tuples(SIMPLE, 0)),
        st.builds(
            n.Join,
            st.sampled_from(["INNER", "LEFT", "FULL", "CROSS"]),
            children,
            children,
            maybe(SMALL),
            natural=st.booleans(),
        ),
    ),
    max_leaves=3,
)
SELECTS = st.builds(
    n.Select,
    tuples(st.builds(n.SelectItem, SMALL | st.builds(n.Star, maybe(identifiers())), maybe(SIMPLE))),
    TABLES,
    maybe(SMALL),
    maybe(st.builds(n.GroupBy, tuples(SMALL), st.sampled_from([None, "DISTINCT"]))),
    maybe(SMALL),
    tuples(st.builds(n.NamedWindow, SIMPLE, windows(SMALL)), 0, 1),
    maybe(SMALL),
    st.sampled_from([None, "DISTINCT", "ALL"]),
)


def queries(children: st.SearchStrategy) -> st.SearchStrategy:
    counts = st.integers(0, 99).map(n.IntegerLiteral)
    return st.one_of(
        st.builds(n.SetOperation, st.sampled_from(["UNION", "INTERSECT", "EXCEPT"]), st.booleans(), children, children),
        st.builds(n.OrderedQuery, children, tuples(orders(SMALL)), maybe(counts), maybe(counts)),
        st.builds(n.With, tuples(st.builds(n.CommonTable, SIMPLE, children, tuples(SIMPLE, 0)), 1, 2), children),
        st.builds(
            n.Select,
            tuples(st.builds(n.SelectItem, st.builds(n.ScalarSubquery, children), maybe(SIMPLE)), 1, 2),
            st.builds(n.DerivedTable, children, st.booleans()),
            st.builds(n.InSubquery, SMALL, children) | st.builds(n.Exists, children),
        ),
    )


QUERIES = st.recursive(
    st.one_of(SELECTS, st.builds(n.Values, tuples(SMALL)), st.builds(n.ExplicitTable, identifiers())),
    queries,
    max_leaves=4,
)
COLUMNS = st.one_of(
    st.builds(n.PhysicalColumn, SIMPLE, TYPES, st.none(), maybe(TEXTS)),
    st.builds(n.MetadataColumn, SIMPLE, TYPES, maybe(TEXTS), st.booleans(), maybe(TEXTS)),
    st.builds(n.ComputedColumn, SIMPLE, EXPRESSIONS, maybe(TEXTS)),
)
CREATE_TABLES = st.builds(
    n.CreateTable,
    identifiers(),
    tuples(COLUMNS),
    tuples(st.builds(n.TableConstraint, st.just("PRIMARY KEY"), tuples(SIMPLE), maybe(SIMPLE), NULLABLE), 0, 1),
    maybe(st.builds(n.Watermark, identifiers(), EXPRESSIONS)),
    maybe(TEXTS),
    maybe(st.builds(n.Distribution, st.sampled_from([None, "HASH"]), tuples(SIMPLE), maybe(st.integers(1, 9)))),
    tuples(SIMPLE, 0),
    tuples(st.builds(n.Option, TEXTS, TEXTS), 0),
    temporary=st.booleans(),
    if_not_exists=st.booleans(),
)
STATEMENTS = st.one_of(
    CREATE_TABLES,
    st.builds(n.QueryStatement, QUERIES),
    st.builds(n.CreateView, identifiers(), QUERIES, tuples(SIMPLE, 0), maybe(TEXTS), st.booleans()),
    st.builds(n.Insert, identifiers(), QUERIES, tuples(identifiers(), 0), overwrite=st.booleans()),
)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_expressions_survive_their_way_through_text(tree: n.Expression) -> None:
    assert parse_expression(unparse(tree)) == tree


@settings(max_examples=50, deadline=None)
@given(QUERIES)
def test_queries_survive_their_way_through_text(tree: n.Query) -> None:
    assert parse_query(unparse(tree)) == tree


@settings(max_examples=50, deadline=None)
@given(STATEMENTS)
def test_statements_survive_their_way_through_text(tree: n.Statement) -> None:
    assert parse_statement(unparse(tree)) == tree


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters() | st.sampled_from("'`\"/*-+xXuU&eE_\\\n{}.1"), max_size=40))
def test_any_text_is_tokens_or_an_error(text: str) -> None:
    try:
        tokens = tokenize(text)
    except SqlParseError as error:
        assert int(error.details["line"]) >= 1
        return
    # Nothing but blanks and comments is between the tokens, which stand in order.
    ends = [token.end for token in tokens]
    assert ends == sorted(ends)
    assert ends[-1] == len(text)


SIGNS = [
    "(",
    ")",
    "(",
    ")",
    ",",
    ".",
    ";",
    "=",
    "<",
    ">",
    "*",
    "+",
    "-",
    "/",
    "[",
    "]",
    "=>",
    "?",
    "/*+",
    "*/",
    "{",
    "}",
]
PIECES = st.one_of(
    st.sampled_from(sorted(KEYWORDS)),
    st.sampled_from(SIGNS),
    st.sampled_from(["a", "b", "`c`", "1", "2.5", "'s'", "SELECT", "FROM", "WHERE", "CREATE", "TABLE", "INT"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_any_tokens_are_statements_or_an_error_with_its_place(pieces: list[str]) -> None:
    text = " ".join(pieces)
    try:
        statements = parse_statements(text)
    except SqlParseError as error:
        assert 1 <= int(error.details["column"]) <= len(text) + 1
        assert "SQL parse failed. " in error.message
        return
    for statement in statements:
        assert parse_statement(unparse(statement)) == statement


def test_reserved_keywords_are_no_names_and_others_are() -> None:
    for word in sorted(KEYWORDS - {"$"}):
        try:
            parse_statement(f"SELECT x.{word} FROM t AS {word}")
            accepted = True
        except SqlParseError:
            accepted = False
        assert accepted == (word not in RESERVED_KEYWORDS), word
