"""CassandraClient: what the sink needs of a cluster; and DriverClient, which asks `cassandra-driver` for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from flinkpy.common.errors import CassandraError, UnsupportedOperationError

#: Called with the error, or None, by any thread.
OnDone = Callable[[BaseException | None], None]


class CassandraClient(ABC):
    """Thread: the task thread."""

    #: Given in place of a value: the field stays what it was.
    unset: Any

    @abstractmethod
    def prepare(self, query: str) -> int:
        """The query of `execute_async`. Returns: the number of its places. Raises: CassandraError."""

    @abstractmethod
    def execute_async(self, values: Sequence[Any], on_done: OnDone) -> None:
        """Raises: TypeError, ValueError: a value does not fit its column."""

    @abstractmethod
    def execute(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Any query, with `%s` for each value. Returns: rows. Raises: CassandraError."""

    @abstractmethod
    def close(self) -> None: ...


class DriverClient(CassandraClient):
    """Args:
    make_cluster: gives a `cassandra.cluster.Cluster`.
    consistency_level: by its number; None: the cluster's default.
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
            raise CassandraError(f"no connection to Cassandra: {_text(error)}") from error

    def prepare(self, query: str) -> int:
        try:
            self._statement = self._session.prepare(query)
        except Exception as error:
            raise CassandraError(f"Cassandra does not take {query!r}: {_text(error)}") from error
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
            raise CassandraError(f"Cassandra does not take {query!r}: {_text(error)}") from error

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
