"""ModelProviderFactory and PredictFunction: the interfaces of the providers of models.

Source: org.apache.flink.table.factories.ModelProviderFactory, org.apache.flink.table.functions.PredictFunction,
org.apache.flink.table.ml.{PredictRuntimeProvider, AsyncPredictRuntimeProvider}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.configuration.options import ConfigOption
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.connectors.table_options import TableOptions

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    #: int64[m]: the row of the batch that each prediction belongs to, in ascending order; then a column per output.
    Predictions = tuple[np.ndarray, list[pa.Array]]


@dataclass(frozen=True)
class ModelContext:
    """A model whose options have been checked.

    Attributes:
        name: its full name.
        inputs, outputs: the rows that it gets and predicts.
        output_metadata: by the name of each output column with METADATA, its key.
        options: the WITH options.
    """

    name: str
    inputs: RowType
    outputs: RowType
    output_metadata: dict[str, str]
    options: TableOptions

    @property
    def predicted(self) -> list[tuple[str, LogicalType]]:
        """The output columns without metadata."""
        return [(each.name, each.type) for each in self.outputs.fields if each.name not in self.output_metadata]


class PredictFunction(ABC):
    """Predicts rows in a task. It is pickled with the job.

    Thread: the task thread.
    """

    def open(self, context: FunctionContext) -> None:
        """Called once before the first batch, for example to load the model."""
        return

    def close(self) -> None:
        return

    @abstractmethod
    def predict(self, columns: list[pa.Array], num_rows: int) -> Predictions:
        """Returns the predictions for the rows of a batch.

        Args:
            columns: one per input of the model, with the Arrow types of its SQL types.
            num_rows: the number of rows.
        """


class ModelProviderFactory(ABC):
    """A kind of models. Packages offer it as an entry point of the group `flinkpy.table.models`.

    Attributes:
        identifier: the value of the option `provider`.
        required_options, optional_options: its other options.
        is_asynchronous: True if its functions can have several requests in flight, as the config of ML_PREDICT says.
    """

    identifier: str
    required_options: Sequence[ConfigOption[Any]] = ()
    optional_options: Sequence[ConfigOption[Any]] = ()
    is_asynchronous: bool = False

    @abstractmethod
    def create_predict_function(self, model: ModelContext, concurrency: int, timeout_ms: int) -> PredictFunction:
        """Returns the function of a model.

        Args:
            concurrency: most requests in flight; 1 if ML_PREDICT asks for synchronous calls.
            timeout_ms: how long the prediction of a row may take, with all attempts.

        Raises: ValidationError if the columns of the model do not fit the provider.
        """
