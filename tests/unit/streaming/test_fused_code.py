"""The code of fused chains: any length, record by record, checks of declared types, and the operator of an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.typeinfo import Types
from flinkpy.records.type_check import type_check
from flinkpy.streaming.operators.fused_code import RowStep, Step, compile_steps

STEPS = {
    RowStep.MAP: lambda value: value + 1,
    RowStep.FILTER: lambda value: value % 7 != 3,
    RowStep.FLAT_MAP: lambda value: [value, value + 1] if value % 50 == 0 else [value],
}


def naive(kinds: list[RowStep], rows: list[int]) -> list[tuple[int, int]]:
    """Returns (position of the input, output) per record."""
    results = list(enumerate(rows))
    for kind in kinds:
        function: Callable[[Any], Any] = STEPS[kind]
        if kind is RowStep.MAP:
            results = [(i, function(v)) for i, v in results]
        elif kind is RowStep.FILTER:
            results = [(i, v) for i, v in results if function(v)]
        else:
            results = [(i, one) for i, v in results for one in function(v)]
    return results


@given(st.lists(st.sampled_from(list(RowStep)), min_size=1, max_size=80), st.lists(st.integers(0, 99), max_size=9))
def test_a_fused_chain_gives_the_results_of_its_functions(kinds: list[RowStep], rows: list[int]) -> None:
    fused = compile_steps([Step(kind, STEPS[kind]) for kind in kinds], ["test"])
    expected = naive(kinds, rows)

    assert fused.values_only(rows) == [value for _, value in expected]
    assert fused.with_indices(rows) == ([value for _, value in expected], [i for i, _ in expected])


@pytest.mark.parametrize("kind", list(RowStep))
@pytest.mark.parametrize("length", [19, 20, 150, 1_000])
def test_a_long_chain_of_one_kind_runs(kind: RowStep, length: int) -> None:
    functions = {RowStep.MAP: lambda v: v + 1, RowStep.FILTER: lambda v: True, RowStep.FLAT_MAP: lambda v: [v + 1]}
    fused = compile_steps([Step(kind, functions[kind])] * length, ["test"])
    added = 0 if kind is RowStep.FILTER else length

    assert fused.values_only([1, 2]) == [1 + added, 2 + added]
    assert fused.with_indices([1, 2]) == ([1 + added, 2 + added], [0, 1])


def test_records_go_through_a_long_chain_one_by_one() -> None:
    seen: list[tuple[int, int]] = []

    def note(position: int) -> Callable[[int], list[int]]:
        def noted(value: int) -> list[int]:
            seen.append((value, position))
            return [value]

        return noted

    compile_steps([Step(RowStep.FLAT_MAP, note(i)) for i in range(40)], ["test"]).values_only([0, 1])

    assert seen == [(value, position) for value in (0, 1) for position in range(40)]


@pytest.mark.parametrize("position", [0, 15, 16, 17, 99])
def test_the_line_of_an_error_identifies_its_step(position: int) -> None:
    def fail(value: int) -> list[int]:
        raise ValueError("boom")

    steps = [Step(RowStep.FLAT_MAP, fail if i == position else lambda v: [v]) for i in range(100)]
    fused = compile_steps(steps, ["test"])

    for function in (fused.values_only, fused.with_indices):
        with pytest.raises(ValueError, match="boom") as raised:
            function([1])
        lines = [entry.lineno + 1 for entry in raised.traceback if str(entry.path) == fused.file_name]
        assert fused.step_of_line(lines[-1]) == position


@pytest.mark.parametrize("kind", [RowStep.MAP, RowStep.FLAT_MAP])
@pytest.mark.parametrize(
    ("type_info", "good", "bad"),
    [
        (Types.INT(), 1, "1"),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), ("a", 1), ("a", "b")),
        (Types.LIST(Types.LONG()), [1], ["a"]),
    ],
)
def test_a_result_that_does_not_fit_is_passed_to_on_misfit(kind: RowStep, type_info: Any, good: Any, bad: Any) -> None:
    check = type_check(type_info)
    assert check is not None
    asked: list[Any] = []

    def on_misfit(value: Any) -> bool:
        asked.append(value)
        if check.misfit([value]) is None:
            return True
        raise TypeError

    def function(value: Any) -> Any:
        return value if kind is RowStep.MAP else [value]

    fused = compile_steps([Step(kind, function, check, on_misfit), Step(RowStep.MAP, lambda v: v)], ["test"])
    for form in (fused.values_only, lambda rows: fused.with_indices(rows)[0]):
        asked.clear()
        assert form([good, good]) == [good, good]
        with pytest.raises(TypeError):
            form([good, bad])
        assert asked[-1] == bad
