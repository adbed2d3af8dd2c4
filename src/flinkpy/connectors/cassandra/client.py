"""CassandraClient: the operations of the sink on a cluster. DriverClient implements them with `cassandra-driver`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from flinkpy.common.errors import CassandraError, UnsupportedOperationError

#: Called by any thread when a request has ended, with its error or None.
OnDone = Callable[[BaseException | None], None]


class CassandraClient(ABC):
    """A connection to a cluster. Thread: task thread."""

    #: A value that leaves a field unchanged.
    unset: Any

    @abstractmethod
    def prepare(self, query: str) -> int:
        """Prepares the query of `execute_async`. Returns the number of its placeholders. Raises: CassandraError."""

    @abstractmethod
    def execute_async(self, values: Sequence[Any], on_done: OnDone) -> None:
        """Starts to execute the prepared query. Raises: TypeError, ValueError if a value does not fit its column."""

    @abstractmethod
    def execute(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Executes a query with a `%s` for each value. Returns the rows. Raises: CassandraError."""

    @abstractmethod
    def close(self) -> None: ...


class DriverClient(CassandraClient):
    """A connection of `cassandra-driver`.

    Args:
        make_cluster: returns a `cassandra.cluster.Cluster`.
        consistency_level: the driver's number of the level; None for the cluster's default.
        is_traced: True to trace the requests.
    """

    def __init__(
        self, make_cluster: Callable[[], Any], consistency_level: int | None = None, is_traced: bool = False
    ) -> None:
        load_driver()
        from cassandra.query import UNSET_VALUE

        self.unset = UNSET_VALUE
        self._consistency_level = consistency_level
        self._is_traced = is_traced
        self._statement: Any = None
        self._cluster = make_cluster()
        try:
            self._session = self._cluster.connect()
        except Exception as error:  # the driver's errors have no common class
            self._cluster.shutdown()
            raise CassandraError(f"cannot connect to Cassandra: {_text(error)}") from error

    def prepare(self, query: str) -> int:
        try:
            self._statement = self._session.prepare(query)
        except Exception as error:
            raise CassandraError(f"Cassandra refused {query!r}: {_text(error)}") from error
        if self._consistency_level is not None:
            self._statement.consistency_level = self._consistency_level
        return len(self._statement.column_metadata)

    def execute_async(self, values: Sequence[Any], on_done: OnDone) -> None:
        future = self._session.execute_async(self._statement, values, trace=self._is_traced)
        future.add_callbacks(lambda _: on_done(None), on_done)

    def execute(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return list(self._session.execute(query, values or None))
        except Exception as error:
            raise CassandraError(f"Cassandra refused {query!r}: {_text(error)}") from error

    def close(self) -> None:
        self._cluster.shutdown()


def load_driver() -> Any:
    try:
        import cassandra
    except ImportError as error:
        raise UnsupportedOperationError("Cassandra needs its client: pip install 'flinkpy[cassandra]'") from error
    return cassandra


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
