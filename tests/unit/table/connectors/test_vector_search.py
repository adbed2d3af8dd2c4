"""VECTOR_SEARCH: the rows with the most similar vectors, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import TableProgramError, TableRuntimeError, ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.connectors import vector_search
from flinkpy.table.connectors.vector_search import InMemoryVectorSearch, VectorMetric

_VECTORS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-3, 3).map(float)), min_size=2, max_size=2))


@dataclass(frozen=True)
class Rows:
    vectors: list[list[float | None] | None]

    def read_all(self) -> pa.RecordBatch:
        numbers = pa.array(range(len(self.vectors)), pa.int64())
        vectors = pa.array(self.vectors, pa.list_(pa.float32()))
        return pa.RecordBatch.from_arrays([numbers, vectors], names=["number", "v"])


def score(metric: VectorMetric, a: list[float], b: list[float]) -> float:
    product = sum(x * y for x, y in zip(a, b))
    if metric is VectorMetric.EUCLIDEAN:
        return 1 / (1 + math.dist(a, b))
    if metric is VectorMetric.DOT_PRODUCT:
        return product
    return product / ((math.hypot(*a) or 1) * (math.hypot(*b) or 1))


@given(st.lists(_VECTORS, max_size=8), st.lists(_VECTORS, max_size=5), st.integers(1, 4), st.sampled_from(VectorMetric))
def test_each_query_finds_the_rows_with_the_highest_scores(
    vectors: list[list[float | None] | None],
    queries: list[list[float | None] | None],
    top_k: int,
    metric: VectorMetric,
) -> None:
    search = InMemoryVectorSearch(Rows(vectors), 1, metric)
    search.open(None)
    positions, rows, scores = search.search(pa.array(queries, pa.list_(pa.float32())), top_k)

    points = [vector for vector in vectors if vector is not None and None not in vector]
    asked = [place for place, query in enumerate(queries) if query is not None and None not in query]
    count = min(top_k, len(points))
    assert positions.tolist() == [place for place in asked for _ in range(count)]
    for place, row, found in zip(positions, rows.to_pylist(), scores):
        assert found == pytest.approx(score(metric, queries[place], vectors[row["number"]]))  # type: ignore[arg-type]
    for place in asked:
        best = sorted((score(metric, queries[place], each) for each in points), reverse=True)  # type: ignore[arg-type]
        assert scores[positions == place].tolist() == pytest.approx(best[:count])


def test_many_queries_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_search, "_MAX_SCORES", 4)
    search = InMemoryVectorSearch(Rows([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), 1, VectorMetric.COSINE)
    search.open(None)
    queries = pa.array([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [1.0, 0.1]], pa.list_(pa.float32()))
    assert search.search(queries, 1)[1].column("number").to_pylist() == [0, 1, 2, 0]


def test_vectors_of_two_lengths_are_refused() -> None:
    search = InMemoryVectorSearch(Rows([[1.0, 0.0], [0.0]]), 1, VectorMetric.COSINE)
    with pytest.raises(TableRuntimeError, match="'v' have between 1 and 2 elements"):
        search.open(None)
    search = InMemoryVectorSearch(Rows([[1.0, 0.0]]), 1, VectorMetric.COSINE)
    search.open(None)
    with pytest.raises(TableRuntimeError, match="vectors of 2 elements, and a query has 3"):
        search.search(pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32())), 1)


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql("CREATE TABLE q (id INT, e ARRAY<FLOAT>) WITH ('connector' = 'datagen')")
    made.execute_sql("CREATE TABLE docs (name STRING, v ARRAY<FLOAT>) WITH ('connector' = 'datagen')")
    files = "WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'parquet'"
    made.execute_sql(f"CREATE TABLE files (id INT, v ARRAY<DOUBLE>) {files}, 'vector-search.metric' = 'EUCLIDEAN')")
    made.execute_sql(f"CREATE TABLE computed (id INT, v ARRAY<DOUBLE>, w AS id + 1) {files})")
    return made


def test_the_plan_has_the_columns_of_both_tables_and_the_score(tables: TableEnvironment) -> None:
    query = "SELECT * FROM q, LATERAL TABLE(VECTOR_SEARCH(TABLE files, DESCRIPTOR(v), q.e, 3)) AS s"
    assert tables.sql_query(query).get_resolved_schema().column_names == ("id", "e", "id0", "v", "score")
    assert "VectorSearchTableFunction(" in tables.explain_sql(query)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("TABLE docs, DESCRIPTOR(v), q.e, 3", TableProgramError, "does not implement VectorSearchTableSource"),
        ("TABLE computed, DESCRIPTOR(v), q.e, 3", TableProgramError, "a table with physical columns"),
        ("TABLE files, DESCRIPTOR(id), q.e, 3", ValidationError, "is ARRAY<FLOAT> or ARRAY<DOUBLE>, but its type is"),
        ("TABLE files, DESCRIPTOR(v, id), q.e, 3", ValidationError, "only contains one column"),
        ("TABLE files, DESCRIPTOR(w), q.e, 3", ValidationError, "Unknown identifier 'w'"),
        ("TABLE files, DESCRIPTOR(v), q.id, 3", ValidationError, "Can not cast the query column type INT"),
        ("TABLE files, DESCRIPTOR(v), q.e, q.id", ValidationError, "top_k is an INTEGER NOT NULL literal"),
        ("TABLE files, DESCRIPTOR(v), q.e, 0", ValidationError, "top_k must be greater than 0, but was 0"),
        ("TABLE files, DESCRIPTOR(v), q.e, 3, MAP['async', 'true']", ValidationError, "doesn't support async mode"),
        ("TABLE files, DESCRIPTOR(v), q.e, 3, MAP['asynk', 'true']", ValidationError, "asynk"),
        ("TABLE files, DESCRIPTOR(v), q.e", ValidationError, "needs the argument top_k"),
    ],
)
def test_a_wrong_argument_is_named(
    tables: TableEnvironment, arguments: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tables.explain_sql(f"SELECT * FROM q, LATERAL TABLE(VECTOR_SEARCH({arguments}))")


def test_rows_that_are_taken_back_are_not_searched_for(tables: TableEnvironment) -> None:
    counted = "(SELECT CAST(COUNT(*) AS FLOAT) AS n FROM q GROUP BY id) AS c"
    with pytest.raises(TableProgramError, match="VectorSearchTableFunction doesn't support consuming update"):
        tables.explain_sql(
            f"SELECT * FROM {counted}, LATERAL TABLE(VECTOR_SEARCH(TABLE files, DESCRIPTOR(v), ARRAY[n, n], 3))"
        )
