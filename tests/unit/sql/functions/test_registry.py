"""The registry knows the functions of Flink 2.3.0, whose definitions `flink_functions.txt` lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.functions.definition import FunctionKind
from flinkpy.sql.functions.registry import call, find_function, function, function_names, functions

LIST = Path(__file__).parents[3] / "recorded" / "flink_functions.txt"
FLINK = [line.split(" ", 2) for line in LIST.read_text().splitlines()]
#: Definitions that SQL does not call by these names, or that belong to the planner.
OTHER_NAMES = {"NOTBETWEEN": "NOT BETWEEN", "IS_JSON": "IS JSON", "CURRENTDATABASE": "CURRENT_DATABASE"}
OF_THE_PLANNER = {
    *("SOURCE_WATERMARK", "DISTINCT", "AGG_DECIMAL_PLUS", "HIVE_AGG_DECIMAL_PLUS", "REINTERPRET_CAST", "DEFAULT"),
    # Structured types do not exist yet.
    *("OBJECT_OF", "OBJECT_UPDATE"),
}


@pytest.mark.parametrize(("kind", "is_deterministic", "name"), FLINK, ids=lambda value: value)
def test_function_of_flink_is_known(kind: str, is_deterministic: str, name: str) -> None:
    if name in OF_THE_PLANNER:
        return
    found = find_function(OTHER_NAMES.get(name, name))
    assert found is not None
    assert found.kind is FunctionKind[kind]
    if kind == "SCALAR":
        assert found.is_deterministic == (is_deterministic == "true")


def test_names_are_found_in_any_case() -> None:
    assert function("upper") is function("UPPER") is function("uppercase")
    assert "upper" in function_names()


def test_unknown_function_is_an_error() -> None:
    with pytest.raises(ValidationError, match="No match found for function signature NO_SUCH"):
        function("NO_SUCH")


def test_function_that_cannot_be_evaluated_yet_is_named() -> None:
    node = call("CURRENT_DATABASE")
    with pytest.raises(UnsupportedOperationError, match="does not have the function CURRENT_DATABASE yet"):
        compile_expressions([node])


def test_scalar_functions_have_kernels_but_a_few() -> None:
    without = [each.name for each in functions(FunctionKind.SCALAR) if each.kernel is None]
    assert without == ["CURRENT_DATABASE"]
