"""The provider `python`: calls a Python object, a model of scikit-learn or another library, or an ONNX file.

| option | the model is |
|---|---|
| `model` = `module.name` | an object of an installed module, or what the module's function or class makes |
| `path` = `/models/m.pkl` | an object that pickle, or joblib, has written. Only load files that you trust |
| `path` = `/models/m.onnx` | a model that onnxruntime runs |

An object with the method `predict`, or another `method`, has it called; any other object is called itself. It gets all
rows of a batch in the form that `input-format` names, and returns a value, or a row of values, for each.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import FunctionError, TypeMismatchError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.table.models.model_provider import ModelContext, ModelProviderFactory, PredictFunction

if TYPE_CHECKING:
    from flinkpy.table.models.model_provider import Predictions

MODEL: ConfigOption[str | None] = ConfigOption("model", OptionType.STRING, None, "The object: `module.name`.")
PATH: ConfigOption[str | None] = ConfigOption("path", OptionType.STRING, None, "The file of the model.")
METHOD: ConfigOption[str | None] = ConfigOption("method", OptionType.STRING, None, "The method that predicts.")
INPUT_FORMAT: ConfigOption[str] = ConfigOption(
    "input-format",
    OptionType.ENUM,
    "matrix",
    "The form of a batch: a NumPy matrix with a row per row, a pandas DataFrame, an Arrow RecordBatch, or one call per "
    "row with Python values.",
    choices=("matrix", "pandas", "arrow", "rows"),
)


class PythonModelProviderFactory(ModelProviderFactory):
    """Makes the functions of models with 'provider' = 'python'."""

    identifier = "python"
    optional_options = (MODEL, PATH, METHOD, INPUT_FORMAT)

    def create_predict_function(self, model: ModelContext, concurrency: int, timeout_ms: int) -> PredictFunction:
        name, path = model.options.get(MODEL), model.options.get(PATH)
        if (name is None) == (path is None):
            raise ValidationError(
                f"Model '{model.name}' needs one of the options 'model' (an object: module.name) and 'path' (a file).",
                details={"option": MODEL.key},
            )
        if model.output_metadata:
            raise ValidationError(f"The provider python of model '{model.name}' has no metadata columns.")
        return PythonPredictFunction(model, name, path, model.options.get(METHOD), model.options.get(INPUT_FORMAT))


class PythonPredictFunction(PredictFunction):
    """Loads the object in each task, and calls it once per batch."""

    def __init__(
        self, model: ModelContext, name: str | None, path: str | None, method: str | None, input_format: str
    ) -> None:
        self._model = model
        self._name = name
        self._path = path
        self._method = method
        self._format = input_format
        self._call: Any = None

    def open(self, context: FunctionContext) -> None:
        if self._path is not None and self._path.endswith(".onnx"):
            self._call = _onnx(self._path)
            return
        loaded = _imported(self._name) if self._name is not None else _unpickled(Path(str(self._path)))
        if isinstance(loaded, type):
            loaded = loaded()
        method = self._method or ("predict" if hasattr(loaded, "predict") else None)
        self._call = loaded if method is None else getattr(loaded, method, None)
        if not callable(self._call):
            raise FunctionError(
                f"the model {self._model.name} is a {type(loaded).__name__}, which has no method "
                f"{method or '__call__'}: name one by the option 'method'"
            )

    def close(self) -> None:
        self._call = None

    def predict(self, columns: list[pa.Array], num_rows: int) -> Predictions:
        names = self._model.inputs.names
        result: Any
        match self._format:
            case "rows":
                result = [self._call(*values) for values in zip(*(each.to_pylist() for each in columns), strict=True)]
            case "arrow":
                result = self._call(pa.RecordBatch.from_arrays(columns, list(names)))
            case "pandas":
                result = self._call(pa.RecordBatch.from_arrays(columns, list(names)).to_pandas())
            case _:
                result = self._call(np.column_stack([each.to_numpy(zero_copy_only=False) for each in columns]))
        return np.arange(num_rows), self._outputs(result, num_rows)

    def _outputs(self, result: Any, num_rows: int) -> list[pa.Array]:
        fields = self._model.outputs.fields
        columns = self._by_name(result) or _columns(result, len(fields))
        if len(columns) != len(fields) or any(len(each) != num_rows for each in columns):
            shape = f"{len(columns)} columns of {sorted({len(each) for each in columns})} rows"
            raise FunctionError(
                f"the model {self._model.name} returned {shape}, but has {len(fields)} outputs and got {num_rows} rows"
            )
        found = []
        for column, field in zip(columns, fields, strict=True):
            wanted = arrow_type_of(field.type)
            try:
                array = column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
                found.append(array if array.type == wanted else array.cast(wanted))
            except (pa.ArrowException, TypeError) as error:
                raise TypeMismatchError(
                    f"the model {self._model.name} returned values for the column {field.name} that are not "
                    f"{field.type}: {error}"
                ) from error
        return found

    def _by_name(self, result: Any) -> list[Any] | None:
        """Returns the outputs of a result whose columns have names; None if it has none, or those of other columns.

        Raises: FunctionError if some outputs are missing.
        """
        if isinstance(result, (pa.Table, pa.RecordBatch)):
            given = list(result.column_names)
        elif isinstance(result, dict) or (hasattr(result, "columns") and hasattr(result, "iloc")):
            given = list(result)
        else:
            return None
        wanted = self._model.outputs.names
        missing = [name for name in wanted if name not in given]
        if len(missing) == len(wanted):
            return None
        if missing:
            raise FunctionError(
                f"the model {self._model.name} returned the columns {given}, without the outputs {missing}",
                details={"model": self._model.name},
            )
        if isinstance(result, pa.Table):
            result = result.combine_chunks()
            return [result.column(name).combine_chunks() for name in wanted]
        return [result.column(name) if isinstance(result, pa.RecordBatch) else result[name] for name in wanted]


def _columns(result: Any, width: int) -> list[Any]:
    """Returns the columns of what a model returned: Arrow, pandas or NumPy in two dimensions, or values or rows."""
    if isinstance(result, pa.Table):
        result = result.combine_chunks().to_batches()[0] if result.num_rows else pa.RecordBatch.from_pylist([])
    if isinstance(result, pa.RecordBatch):
        return list(result.columns)
    if isinstance(result, dict):
        return list(result.values())
    if hasattr(result, "columns") and hasattr(result, "iloc"):
        return [result.iloc[:, place] for place in range(result.shape[1])]
    if isinstance(result, np.ndarray) and result.ndim == 2:
        # One output with several values per row is an array.
        return [list(result)] if width == 1 and result.shape[1] != 1 else list(result.T)
    if isinstance(result, np.ndarray) or width == 1:
        return [result]
    return [list(each) for each in zip(*result, strict=True)]


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise FunctionError(f"the model {name} cannot be imported: {error}", details={"model": name}) from error


def _unpickled(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            if path.suffix == ".joblib":
                return import_module("joblib").load(file)
            return pickle.load(file)
    except Exception as error:  # an object may raise anything while it is made anew
        raise FunctionError(f"the model {path} cannot be loaded: {error}", details={"file": str(path)}) from error


def _onnx(path: str) -> Any:
    """Returns a function from a matrix to the first output of the model."""
    try:
        runtime = import_module("onnxruntime")
    except ImportError as error:
        raise FunctionError(f"the model {path} needs onnxruntime: pip install onnxruntime") from error
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    kind = np.float64 if given.type == "tensor(double)" else np.float32
    return lambda matrix: session.run([session.get_outputs()[0].name], {given.name: np.asarray(matrix, kind)})[0]
