"""The provider `python`: objects by their names and pickled ones, and the forms of their arguments and results."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkpy.common.errors import FunctionError, TypeMismatchError, ValidationError
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.models.registry import model_provider

TWO_INPUTS = "INPUT (x DOUBLE, y BIGINT) OUTPUT"


class Sum:
    """Adds the columns of a matrix, as a model of scikit-learn would."""

    def predict(self, matrix: np.ndarray) -> np.ndarray:
        return matrix.sum(axis=1)

    def predict_proba(self, matrix: np.ndarray) -> np.ndarray:
        return matrix * 2


def of_batch(batch: pa.RecordBatch) -> dict[str, Any]:
    return {"sum": pc.add(batch["x"], batch["y"].cast("float64")), "text": ["a"] * batch.num_rows}


def of_batch_in_another_order(batch: pa.RecordBatch) -> dict[str, Any]:
    return {"text": ["a"] * batch.num_rows, "unused": [0] * batch.num_rows, "sum": batch["x"]}


def of_frame(frame: Any) -> Any:
    return frame["y"] * 2


def of_row(x: float, y: int) -> tuple[float, str]:
    return x - y, str(y)


def too_few(matrix: np.ndarray) -> list[float]:
    return [1.0]


def texts(matrix: np.ndarray) -> list[str]:
    return ["a"] * len(matrix)


def predicted(columns: str, **options: str) -> list[list[Any]]:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    shown = ", ".join(f"'{key.replace('_', '-')}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE MODEL m {columns} WITH ('provider' = 'python', {shown})")
    factory, model = model_provider(tables.planner._catalogs.models.get_model_or_error(("m",)))
    function = pickle.loads(pickle.dumps(factory.create_predict_function(model, 1, 1_000)))
    function.open(FunctionContext(None))
    rows, found = function.predict([pa.array([1.5, 2.5]), pa.array([1, 2], pa.int64())], 2)
    function.close()
    assert rows.tolist() == [0, 1]
    return [each.to_pylist() for each in found]


def test_an_object_with_predict_gets_a_matrix() -> None:
    assert predicted(f"{TWO_INPUTS} (s DOUBLE)", model=f"{__name__}.Sum") == [[2.5, 4.5]]


def test_another_method_may_return_a_matrix_of_outputs() -> None:
    found = predicted(f"{TWO_INPUTS} (a FLOAT, b INT)", model=f"{__name__}.Sum", method="predict_proba")
    assert found == [[3.0, 5.0], [2, 4]]
    found = predicted(f"{TWO_INPUTS} (p ARRAY<DOUBLE>)", model=f"{__name__}.Sum", method="predict_proba")
    assert found == [[[3.0, 2.0], [5.0, 4.0]]]


def test_a_pickled_model_is_loaded_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(Sum()))
    assert predicted(f"{TWO_INPUTS} (s DOUBLE)", path=str(tmp_path / "m.pkl")) == [[2.5, 4.5]]
    (tmp_path / "cut.pkl").write_bytes(pickle.dumps(Sum())[:5])
    with pytest.raises(FunctionError, match=r"cut\.pkl cannot be loaded"):
        predicted(f"{TWO_INPUTS} (s DOUBLE)", path=str(tmp_path / "cut.pkl"))
    with pytest.raises(FunctionError, match=r"none\.pkl cannot be loaded"):
        predicted(f"{TWO_INPUTS} (s DOUBLE)", path=str(tmp_path / "none.pkl"))


def test_a_function_may_take_a_batch_or_a_row() -> None:
    outputs = f"{TWO_INPUTS} (s DOUBLE, t STRING)"
    assert predicted(outputs, model=f"{__name__}.of_batch", input_format="arrow") == [[2.5, 4.5], ["a", "a"]]
    assert predicted(outputs, model=f"{__name__}.of_row", input_format="rows") == [[0.5, 0.5], ["1", "2"]]


def test_outputs_with_names_are_taken_by_their_names() -> None:
    model = f"{__name__}.of_batch_in_another_order"
    found = predicted(f"{TWO_INPUTS} (`sum` DOUBLE, text STRING)", model=model, input_format="arrow")
    assert found == [[1.5, 2.5], ["a", "a"]]
    with pytest.raises(FunctionError, match=r"without the outputs \['label'\]"):
        predicted(f"{TWO_INPUTS} (`sum` DOUBLE, label STRING)", model=model, input_format="arrow")


def test_a_function_may_take_a_data_frame() -> None:
    pytest.importorskip("pandas")
    found = predicted(f"{TWO_INPUTS} (s BIGINT)", model=f"{__name__}.of_frame", input_format="pandas")
    assert found == [[2, 4]]


def test_results_that_do_not_fit_the_outputs_are_named() -> None:
    with pytest.raises(FunctionError, match=r"returned 1 columns of \[1\] rows, but has 1 outputs and got 2 rows"):
        predicted(f"{TWO_INPUTS} (s DOUBLE)", model=f"{__name__}.too_few")
    with pytest.raises(TypeMismatchError, match="values for the column s that are not DOUBLE"):
        predicted(f"{TWO_INPUTS} (s DOUBLE)", model=f"{__name__}.texts")
    with pytest.raises(FunctionError, match=r"no_such\.thing cannot be imported"):
        predicted(f"{TWO_INPUTS} (s DOUBLE)", model="no_such.thing")
    with pytest.raises(ValidationError, match="one of the options 'model'"):
        predicted(f"{TWO_INPUTS} (s DOUBLE)", method="predict")
