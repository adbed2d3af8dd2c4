"""The classes that user-defined functions of SQL and the Table API are made of.

Users import them from `flinkpy.table.udf`.

Source: pyflink.table.udf.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
ACC = TypeVar("ACC")


class FunctionContext:
    """The context that `open` gets: metrics, the task, and the parameters of the job.

    Args:
        runtime_context: that of the operator.
    """

    def __init__(self, runtime_context: Any) -> None:
        self._context = runtime_context

    def get_metric_group(self) -> Any:
        """Returns the group in which metrics are registered."""
        return self._context.get_metrics_group()

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns a parameter of the job, from `pipeline.global-job-parameters`."""
        found: str = self._context.get_job_parameter(key, default_value)
        return found

    def get_task_name(self) -> str:
        name: str = self._context.get_task_name()
        return name

    def get_task_name_with_subtasks(self) -> str:
        name: str = self._context.get_task_name_with_subtasks()
        return name

    def get_number_of_parallel_subtasks(self) -> int:
        return int(self._context.get_number_of_parallel_subtasks())

    def get_max_number_of_parallel_subtasks(self) -> int:
        return int(self._context.get_max_number_of_parallel_subtasks())

    def get_index_of_this_subtask(self) -> int:
        return int(self._context.get_index_of_this_subtask())

    def get_attempt_number(self) -> int:
        return int(self._context.get_attempt_number())


class UserDefinedFunction:
    """The base class. Functions are pickled into the job."""

    def open(self, function_context: FunctionContext) -> None:
        """Called in each subtask before the first call."""
        return

    def close(self) -> None:
        """Called in each subtask after the last call."""
        return

    def is_deterministic(self) -> bool:
        """Returns True if a call with equal arguments always has the same result."""
        return True


class ScalarFunction(UserDefinedFunction, ABC):
    """Returns one value per row."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """Returns the value for the arguments of one row; for vectorised functions of a batch."""


class AsyncScalarFunction(UserDefinedFunction, ABC):
    """Returns one value per row, by a coroutine. Several rows are processed side by side."""

    @abstractmethod
    async def eval(self, *args: Any) -> Any: ...


class TableFunction(UserDefinedFunction, ABC):
    """Returns any number of rows per row."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """Returns an iterable of rows (tuples or Rows, or bare values if they have one column), or one row, or None."""


class ImperativeAggregateFunction(UserDefinedFunction, ABC, Generic[T, ACC]):
    """The base class of aggregate functions. They keep what they need in an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Returns the accumulator of no rows."""

    @abstractmethod
    def accumulate(self, accumulator: ACC, *args: Any) -> None:
        """Adds the arguments of a row to the accumulator, in place."""

    def retract(self, accumulator: ACC, *args: Any) -> None:
        """Takes the arguments of a row out of the accumulator. Needed where the input has updates."""
        raise RuntimeError("Method retract is not implemented")

    def merge(self, accumulator: ACC, accumulators: Any) -> None:
        """Adds other accumulators. Needed for session windows and two-phase aggregation."""
        raise RuntimeError("Method merge is not implemented")

    def get_result_type(self) -> Any:
        """Returns the DataType of the result."""
        raise RuntimeError("Method get_result_type is not implemented")

    def get_accumulator_type(self) -> Any:
        """Returns the DataType of the accumulator."""
        raise RuntimeError("Method get_accumulator_type is not implemented")


class AggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """Returns one value per group."""

    @abstractmethod
    def get_value(self, accumulator: ACC) -> T:
        """Returns the result for the rows in the accumulator."""


class TableAggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """Returns any number of rows per group."""

    @abstractmethod
    def emit_value(self, accumulator: ACC) -> Any:
        """Returns an iterable of the rows for the rows in the accumulator."""


class DelegatingScalarFunction(ScalarFunction):
    """Calls a plain function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def eval(self, *args: Any) -> Any:
        return self.func(*args)


class DelegatingAsyncScalarFunction(AsyncScalarFunction):
    """Calls a plain coroutine function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    async def eval(self, *args: Any) -> Any:
        return await self.func(*args)


class DelegationTableFunction(TableFunction):
    """Calls a plain function or generator."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def eval(self, *args: Any) -> Any:
        return self.func(*args)


class DelegatingPandasAggregateFunction(AggregateFunction[Any, list[Any]]):
    """Calls a plain function with all rows of a group: one pandas.Series per argument."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def get_value(self, accumulator: list[Any]) -> Any:
        return accumulator[0]

    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        accumulator.append(self.func(*args))
