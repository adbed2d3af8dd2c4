"""JobExecutionResult: the result of a finished job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.accumulators import AccumulatorFailure

if TYPE_CHECKING:
    from flinkpy.common.ids import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The id, run time and accumulators of a finished job. Source: pyflink.common.JobExecutionResult."""

    def __init__(
        self, j_job_execution_result: JobID, net_runtime_ms: int = -1, accumulators: dict[str, Any] | None = None
    ) -> None:
        self._job_id = j_job_execution_result
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Returns the run time of the job in milliseconds, or -1 if the program did not wait for the job."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Returns the value of an accumulator, or None if there is none of this name.

        Raises:
            AccumulatorError: the value could not be computed.
        """
        return _value(self._accumulators.get(accumulator_name))

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Returns the values of all accumulators by name. Raises: AccumulatorError like `get_accumulator_result`."""
        return {name: _value(value) for name, value in self._accumulators.items()}

    def __str__(self) -> str:
        if self._net_runtime_ms < 0:
            return f"Job has been submitted with JobID {self._job_id}"
        return (
            "Program execution finished\n"
            f"Job with JobID {self._job_id} has finished.\n"
            f"Job Runtime: {self._net_runtime_ms} ms\n"
        )


def _value(value: Any) -> Any:
    if isinstance(value, AccumulatorFailure):
        raise value.error()
    return value
