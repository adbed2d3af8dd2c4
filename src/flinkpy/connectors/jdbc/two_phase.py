"""Exactly once, by the two-phase commit of the database (DB-API's TPC methods; PostgreSQL's PREPARE TRANSACTION).

A writer has one transaction per checkpoint, prepared before the barrier. Its name says who made it:

    transaction  flinkpy-JOB-RESTORED   the job, and the checkpoint its first attempt of that name began from (0: none)
    branch       SUBTASK/PARALLELISM/N  N counts on from checkpoint to checkpoint

The name without N, the lineage, is handed on in the writer's state with the next N. So an attempt that begins from a
checkpoint knows which prepared transactions are behind it: those of its lineage from N on, which nobody will ever
commit. They would hold their locks for ever, and are rolled back.

Source: org.apache.flink.connector.jdbc.xa (FLINK-20845).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer, StatefulSinkWriter, WriterContext
from flinkpy.connectors.jdbc.batch_statement import BatchStatement
from flinkpy.connectors.jdbc.database import Database
from flinkpy.connectors.jdbc.options import JdbcExecutionOptions
from flinkpy.connectors.jdbc.writer import RowBuffer
from flinkpy.records.batch import Batch

_FORMAT_ID = 0x666C6B79


@dataclass(frozen=True, slots=True)
class Lineage:
    """`next_number`: of the next transaction."""

    transaction: str
    branch: str
    next_number: int = 0

    def owns(self, branch: PreparedBranch) -> bool:
        return branch.transaction == self.transaction and branch.branch.rpartition("/")[0] == self.branch


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """A prepared transaction: the committable."""

    transaction: str
    branch: str

    @property
    def number(self) -> int:
        return int(self.branch.rpartition("/")[2])

    def xid(self, connection: Any) -> Any:
        return connection.xid(_FORMAT_ID, self.transaction, self.branch)


def prepared_branches(connection: Any) -> set[PreparedBranch]:
    """Those in the database that have names as above."""
    recovered = [(xid[0], xid[1], xid[2]) for xid in connection.tpc_recover()]
    return {PreparedBranch(name, branch) for kind, name, branch in recovered if kind == _FORMAT_ID and branch}


class TwoPhaseWriter(StatefulSinkWriter):
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
        self._prepared: list[PreparedBranch] = []
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
            self._connection.tpc_prepare()
            # The transaction is the database's now. A connection cannot begin another while it holds one.
            self._connection.close()
            self._connection = None
        except Exception as error:
            raise self._statement.error(error) from error
        failpoint("jdbc.after_prepare")
        self._prepared.append(branch)

    def prepare_commit(self) -> list[Any]:
        prepared, self._prepared = self._prepared, []
        return prepared

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [Lineage(self._lineage.transaction, self._lineage.branch, self._next_number)]

    def close(self) -> None:
        """A transaction that is open, and not prepared, is rolled back by this."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write_batches(self, whatever_there_is: bool) -> None:
        while rows := self._buffer.next_batch(whatever_there_is):
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
                # What the transaction had is lost with it: the job goes back to its last checkpoint.
                raise self._statement.error(error) from error


class TwoPhaseCommitter(Committer):
    """Thread: task thread."""

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
                branch = request.get_committable()
                if branch not in prepared:
                    request.signal_already_committed()
                    continue
                self._connection.tpc_commit(branch.xid(self._connection))
                failpoint("jdbc.after_commit")
        except Exception as error:
            self.close()
            raise self._statement.error(error) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
