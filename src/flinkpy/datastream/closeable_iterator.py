"""CloseableIterator: the results of `execute_and_collect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkpy.common.typeinfo import TypeInformation

__all__ = ["CloseableIterator"]


class CloseableIterator(Iterator[Any]):
    """Iterates over the results of a job while it runs. It is also a context manager.

    Closing it before its end cancels the job.

    Source: pyflink CloseableIterator.
    """

    def __init__(self, j_closeable_iterator: Any, type_info: TypeInformation | None = None) -> None:
        self._results = j_closeable_iterator
        self._type_info = type_info

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    def next(self) -> Any:
        """Returns the next record. Raises: StopIteration after the last one."""
        return next(self)

    def close(self) -> None:
        """Cancels the job if it still runs."""
        self._results.close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
