"""TwoPhaseWriter and TwoPhaseCommitter: the exactly-once JDBC sink, on the database's two-phase commit.

They use the TPC methods of DB-API, which are PREPARE TRANSACTION in PostgreSQL. A writer has one transaction per
checkpoint and prepares it before the barrier. The name of the transaction has two parts:

    transaction  flinkpy-JOB-RESTORED   the job, and the checkpoint that its first attempt was restored from (0: none)
    branch       SUBTASK/PARALLELISM/N  N increases by one with each transaction

The name without N is the lineage. The writer's state contains the lineage and the next N. An attempt that is restored
from a checkpoint therefore knows which prepared transactions came after it: those of its lineage from N on. No
committer will commit them and they would hold their locks forever, so the attempt rolls them back.

A committable that is no longer prepared was usually committed by an attempt that failed before it could report so. But
an operator may also have rolled it back by hand, and then its rows are lost. PostgreSQL can tell which: the committable
contains the server's number of the transaction, and `txid_status` returns the outcome. Lost rows are logged as an
error, and the job continues: the sink has no option to skip lost rows, so a failed job could never be restored. Other
databases do not tell the outcome; there the committer only warns.

Source: org.apache.flink.connector.jdbc.xa (FLINK-20845).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import CommitError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer, StatefulSinkWriter, WriterContext
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.options import JdbcExecutionOptions
from flinkpy.connectors.jdbc.sink import RowBuffer
from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: The format id of all transaction ids of flinkpy: "flky".
_FORMAT_ID = 0x666C6B79


@dataclass(frozen=True, slots=True)
class Lineage:
    """The name that the transactions of one subtask share, and the number of the next one."""

    transaction: str
    branch: str
    next_number: int = 0

    def owns(self, branch: PreparedBranch) -> bool:
        return branch.transaction == self.transaction and branch.branch.rpartition("/")[0] == self.branch


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """The name of a prepared transaction."""

    transaction: str
    branch: str

    @property
    def number(self) -> int:
        return int(self.branch.rpartition("/")[2])

    def xid(self, connection: Any) -> Any:
        return connection.xid(_FORMAT_ID, self.transaction, self.branch)


@dataclass(frozen=True, slots=True)
class JdbcCommittable:
    """A prepared transaction to commit. Earlier releases stored the PreparedBranch alone.

    Attributes:
        server_id: the number that PostgreSQL gave the transaction; None for other databases.
    """

    branch: PreparedBranch
    server_id: int | None = None


def prepared_branches(connection: Any) -> set[PreparedBranch]:
    """Returns the prepared transactions in the database that flinkpy has named."""
    recovered = [(xid[0], xid[1], xid[2]) for xid in connection.tpc_recover()]
    return {PreparedBranch(name, branch) for kind, name, branch in recovered if kind == _FORMAT_ID and branch}


def _scalar(connection: Any, query: str) -> Any:
    cursor = connection.cursor()
    try:
        cursor.execute(query)
        return cursor.fetchone()[0]
    finally:
        cursor.close()


class TwoPhaseWriter(StatefulSinkWriter):
    """Prepares one transaction per checkpoint. Thread: task thread."""

    def __init__(
        self,
        database: Database,
        sql: str,
        options: JdbcExecutionOptions,
        context: WriterContext,
        lineages: list[Lineage],
    ) -> None:
        self._database = database
        self._statement = BatchStatement(database, sql)
        self._buffer = RowBuffer(self._statement, context, options.get_batch_size())
        restored = context.restored_checkpoint_id or 0
        fresh = Lineage(f"flinkpy-{context.job_id}-{restored}", f"{context.subtask_index}/{context.parallelism}")
        self._lineage = lineages[0] if lineages else fresh
        self._next_number = self._lineage.next_number
        self._connection: Any = None
        self._open: PreparedBranch | None = None
        self._prepared: list[JdbcCommittable] = []
        try:
            self._roll_back_lost(lineages or [fresh])
        except Exception as error:
            self.close()
            raise self._statement.error(error) from error

    def _roll_back_lost(self, lineages: list[Lineage]) -> None:
        self._connection = self._database.connect()
        for branch in prepared_branches(self._connection):
            if any(lineage.owns(branch) and branch.number >= lineage.next_number for lineage in lineages):
                self._connection.tpc_rollback(branch.xid(self._connection))

    def write(self, batch: Batch) -> None:
        self._buffer.add(batch)
        self._write_batches(False)

    def flush(self, end_of_input: bool) -> None:
        self._write_batches(True)
        branch, self._open = self._open, None
        if branch is None:
            return
        try:
            server_id = _scalar(self._connection, "SELECT txid_current()") if self._database.is_postgresql else None
            self._connection.tpc_prepare()
            # Any connection can commit the transaction now. This one cannot begin another while it holds it.
            self._connection.close()
            self._connection = None
        except Exception as error:
            raise self._statement.error(error) from error
        failpoint("jdbc.after_prepare")
        self._prepared.append(JdbcCommittable(branch, server_id))

    def prepare_commit(self) -> list[Any]:
        prepared, self._prepared = self._prepared, []
        return prepared

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [Lineage(self._lineage.transaction, self._lineage.branch, self._next_number)]

    def close(self) -> None:
        """Closes the connection. The database rolls back a transaction that is not prepared."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write_batches(self, flushes: bool) -> None:
        while rows := self._buffer.next_batch(flushes):
            try:
                if self._connection is None:
                    self._connection = self._database.connect()
                if self._open is None:
                    branch = PreparedBranch(self._lineage.transaction, f"{self._lineage.branch}/{self._next_number}")
                    self._connection.tpc_begin(branch.xid(self._connection))
                    self._next_number += 1
                    self._open = branch
                self._statement.execute(self._connection, rows)
            except Exception as error:
                # The rows of the transaction are lost with it, so the job has to restart from its last checkpoint.
                raise self._statement.error(error) from error


class TwoPhaseCommitter(Committer):
    """Commits prepared transactions. Thread: task thread."""

    def __init__(self, database: Database, sql: str) -> None:
        self._database = database
        self._statement = BatchStatement(database, sql)
        self._connection: Any = None

    def commit(self, requests: list[CommitRequest]) -> None:
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            prepared = prepared_branches(self._connection)
            for request in requests:
                branch = _branch_of(request)
                if branch not in prepared:
                    self._settle(request)
                    continue
                self._connection.tpc_commit(branch.xid(self._connection))
                failpoint("jdbc.after_commit")
        except Exception as error:
            self.close()
            raise self._statement.error(error) from error

    def _settle(self, request: CommitRequest) -> None:
        """Signals the outcome of a transaction that is not prepared any more."""
        branch = _branch_of(request)
        name = f"{self._database.url}: prepared transaction {branch.transaction!r}, branch {branch.branch!r},"
        outcome = self._outcome(request)
        if outcome == "aborted":
            request.signal_failed_with_known_reason(
                CommitError(f"{name} was rolled back outside of flinkpy. Its rows are lost.")
            )
            return
        if outcome != "committed":
            # PostgreSQL forgets outcomes only after very long; elsewhere this comes with every recovery.
            level = logging.ERROR if self._database.is_postgresql else logging.WARNING
            _LOG.log(
                level,
                "%s is not prepared any more, and the database does not tell how it ended. It counts as committed by "
                "an attempt that failed. If somebody rolled it back by hand, its rows are lost.",
                name,
            )
        request.signal_already_committed()

    def _outcome(self, request: CommitRequest) -> str | None:
        """Returns "committed" or "aborted", or None if the database does not know (any more)."""
        committable = request.get_committable()
        server_id = getattr(committable, "server_id", None)
        if server_id is None or not self._database.is_postgresql:
            return None
        # The server refuses a number that it has not given yet: this may be another server than at the checkpoint.
        outcome: str | None = _scalar(
            self._connection,
            f"SELECT CASE WHEN {server_id:d} < txid_snapshot_xmax(txid_current_snapshot()) "
            f"THEN txid_status({server_id:d}) END",
        )
        # The query began a transaction, in which no other can be committed.
        self._connection.rollback()
        return outcome

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _branch_of(request: CommitRequest) -> PreparedBranch:
    committable = request.get_committable()
    branch: PreparedBranch = committable if isinstance(committable, PreparedBranch) else committable.branch
    return branch
