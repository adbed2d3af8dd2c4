"""Programs give the same results as a stream, as a native batch and in Spark."""

from __future__ import annotations

from typing import Any

from engines import SameResults, _known_results, engine_cluster, same_results

from flinkpy.common import Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, sum_

__all__ = ["_known_results", "engine_cluster", "same_results"]

Env = StreamExecutionEnvironment
SALES = Types.ROW_NAMED(["shop", "item", "amount"], [Types.STRING(), Types.STRING(), Types.INT()])


def sales(env: Env) -> Any:
    rows = [
        (f"shop-{i % 3}" if i % 11 else None, f"item-{i % 7}", None if i % 13 == 0 else i * 37 % 101)
        for i in range(200)
    ]
    from flinkpy.common import Row

    return env.from_collection([Row(*row) for row in rows], SALES)


def test_functions_of_records(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        numbers = env.from_collection(list(range(100)), Types.LONG())
        return (
            numbers.map(lambda x: x * 3, Types.LONG())
            .filter(lambda x: x % 2 == 0)
            .flat_map(lambda x: [x, -x], Types.LONG())
        )

    assert len(same_results(build)) == 100


def test_aggregates_of_columns(same_results: SameResults) -> None:
    def build(env: Env) -> Any:
        return sales(env).key_by("shop").aggregate(n=count(), total=sum_("amount"), top=max_("amount"), emit="FINAL")

    assert len(same_results(build)) == 4
