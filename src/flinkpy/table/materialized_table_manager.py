"""MaterializedTableManager: runs, suspends and resumes the jobs that refresh materialized tables.

Source: org.apache.flink.table.gateway.service.materializedtable.MaterializedTableManager. Differs: the session itself
runs the jobs. Periodic refreshes in FULL mode need the scheduler of a SQL gateway, which does not exist; such tables
are refreshed by ALTER MATERIALIZED TABLE ... REFRESH.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import JobNotFoundError, UnsupportedOperationError, ValidationError
from flinkpy.common.states import JobState
from flinkpy.configuration.checkpointing_options import INTERVAL, RESTORE_PATH, SAVEPOINT_DIRECTORY
from flinkpy.configuration.execution_options import RUNTIME_MODE
from flinkpy.configuration.options import is_set, read_option
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types.logical_types import VarCharType
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.identifiers import ObjectIdentifier, quoted
from flinkpy.table.catalog.materialized_table import (
    CatalogMaterializedTable,
    ContinuousRefreshHandler,
    RefreshMode,
    RefreshStatus,
)
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.statements.alterations import partition_spec
from flinkpy.table.statements.literals import literal_of, text_literal
from flinkpy.table.table_config import temporary_options
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    from flinkpy.client.cluster_client import ClusterClient

_LOG = logging.getLogger(__name__)
_NO_SCHEDULER = (
    "The workflow scheduler must be configured when {} materialized table in full refresh mode. It belongs to a SQL "
    "gateway, which flinkpy does not have: use ALTER MATERIALIZED TABLE ... REFRESH, or REFRESH_MODE = CONTINUOUS."
)


@dataclass(frozen=True)
class RefreshSession:
    """The parts of a TableEnvironment that refresh jobs need.

    Attributes:
        catalogs: hold the tables with the ids of their jobs.
        configuration: the options of the session.
        submit: runs an INSERT as a job with a name, and returns the id of the job.
        cluster_client: returns a client of the cluster; None if no job has started the embedded one.
    """

    catalogs: CatalogManager
    configuration: Any
    submit: Callable[[str, str], str]
    cluster_client: Callable[[], ClusterClient | None]


class MaterializedTableManager:
    """Thread: that of the program."""

    def __init__(self, session: RefreshSession) -> None:
        self._session = session
        self._catalogs = session.catalogs
        self._configuration = session.configuration

    def find(self, parts: tuple[str, ...]) -> tuple[ObjectIdentifier, CatalogMaterializedTable] | None:
        """Returns a table; None if there is none. Raises: ValidationError if it is no materialized table."""
        found = self._catalogs.get_table(self._catalogs.qualify(parts))
        if found is None:
            return None
        if not isinstance(found.table, CatalogMaterializedTable):
            raise ValidationError(f"The object {found.identifier} is no materialized table.")
        return found.identifier, found.table

    def get(self, parts: tuple[str, ...]) -> tuple[ObjectIdentifier, CatalogMaterializedTable]:
        """Raises: ValidationError if there is no such materialized table."""
        found = self.find(parts)
        if found is None:
            identifier = self._catalogs.qualify(parts)
            raise ValidationError(
                f"Materialized table {identifier} doesn't exist.{self._catalogs.hint(parts)}",
                details={"table": identifier.as_summary_string()},
            )
        return found

    def start(self, identifier: ObjectIdentifier) -> None:
        """Starts the job of a table that has just been created. If that fails, the table is dropped again."""
        table = self._table(identifier)
        if table.refresh_mode is RefreshMode.FULL:
            _LOG.warning(
                "Materialized table %s is in FULL refresh mode, and nothing refreshes it periodically: execute ALTER "
                "MATERIALIZED TABLE ... REFRESH.",
                identifier,
            )
            self._store(identifier, replace(table, status=RefreshStatus.SUSPENDED))
            return
        try:
            self._execute_continuous(identifier, table, {})
        except Exception:
            self._catalogs.drop_table(identifier, True)
            raise

    def suspend(self, identifier: ObjectIdentifier) -> None:
        """Stops the job of a table with a savepoint.

        Raises:
            ValidationError: the table is suspended already, or no directory of savepoints is set.
            CheckpointError: the savepoint failed; the job goes on.
        """
        table = self._table(identifier)
        if table.refresh_mode is RefreshMode.FULL:
            raise UnsupportedOperationError(_NO_SCHEDULER.format("suspending"))
        handler = table.handler
        assert handler is not None
        if table.status is RefreshStatus.SUSPENDED:
            raise ValidationError(
                f"Materialized table {identifier} continuous refresh job has been suspended, jobId is {handler.job_id}."
            )
        path = self._stop_with_savepoint(identifier, handler.job_id)
        stopped = ContinuousRefreshHandler(handler.job_id, path)
        self._store(identifier, replace(table, status=RefreshStatus.SUSPENDED, handler=stopped))

    def resume(self, identifier: ObjectIdentifier, options: Mapping[str, str]) -> None:
        """Starts the job of a suspended table from its savepoint, or that of a table whose job has ended.

        Args:
            options: options of the table for this job.

        Raises: ValidationError if the job runs.
        """
        table = self._table(identifier)
        if table.refresh_mode is RefreshMode.FULL:
            raise UnsupportedOperationError(_NO_SCHEDULER.format("resuming"))
        if table.status is RefreshStatus.ACTIVATED and table.handler is not None and self._runs(table.handler.job_id):
            raise ValidationError(
                f"Materialized table {identifier} continuous refresh job has been resumed, jobId is "
                f"{table.handler.job_id}."
            )
        self._execute_continuous(identifier, table, options)

    def refresh(self, identifier: ObjectIdentifier, partition: tuple[ast.PartitionColumn, ...]) -> TableResult:
        """Starts a batch job that writes all rows again, or those of a partition. Returns the id of the job.

        Raises: ValidationError if a column is no partition key, or the table cannot be overwritten.
        """
        table = self._table(identifier)
        spec = dict(partition_spec(partition))
        unknown = [name for name in spec if name not in table.partition_keys]
        if unknown:
            keys = ", ".join(table.partition_keys)
            raise ValidationError(
                f"The partition spec contains unknown partition keys:\n\n{unknown[0]}\n\nAll known keys are: [{keys}]."
            )
        query = f"SELECT * FROM ({table.expanded_query})"
        if spec:
            types = {each.name: each.type for each in self._resolved(identifier).columns}
            conditions = (f"{quoted(name)} = {literal_of(value, types[name])}" for name, value in spec.items())
            query += f" WHERE {' AND '.join(conditions)}"
        name = f"Materialized_table_{identifier}_one_time_refresh_job"
        statement = f"INSERT OVERWRITE {identifier} {query}"
        with temporary_options(self._configuration, {RUNTIME_MODE.key: "BATCH"}):
            job_id = self._session.submit(statement, name)
        return TableResult.of_rows(ResolvedSchema.physical(("job id", VarCharType())), [(job_id,)])

    def change_query(self, identifier: ObjectIdentifier, changed: CatalogMaterializedTable) -> None:
        """Gives a table another query, and starts its job anew without state. Raises: as `suspend`."""
        before = self._table(identifier)
        was_active = before.refresh_mode is RefreshMode.CONTINUOUS and before.status is RefreshStatus.ACTIVATED
        if was_active:
            self.suspend(identifier)
        current = self._table(identifier)
        fresh = None if current.handler is None else ContinuousRefreshHandler(current.handler.job_id)
        self._store(identifier, replace(changed, status=current.status, handler=fresh))
        if not was_active:
            return
        try:
            self._execute_continuous(identifier, self._table(identifier), {})
        except Exception:
            self._store(identifier, current)
            self._execute_continuous(identifier, current, {})
            raise

    def drop(self, identifier: ObjectIdentifier) -> None:
        """Cancels the job of a table and drops the table."""
        table = self._table(identifier)
        if table.status is RefreshStatus.ACTIVATED and table.handler is not None:
            with self._cluster() as client:
                try:
                    if client is not None:
                        client.cancel_job(table.handler.job_id)
                except JobNotFoundError:
                    _LOG.info("The refresh job %s of %s has ended before", table.handler.job_id, identifier)
        self._catalogs.drop_table(identifier, False)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def _execute_continuous(
        self, identifier: ObjectIdentifier, table: CatalogMaterializedTable, options: Mapping[str, str]
    ) -> None:
        wanted = {RUNTIME_MODE.key: "STREAMING"}
        if not is_set(self._configuration, INTERVAL):
            wanted[INTERVAL.key] = f"{table.freshness.duration_ms} ms"
        restore_path = None if table.handler is None else table.handler.restore_path
        if restore_path is not None:
            wanted[RESTORE_PATH.key] = restore_path
        hint = ", ".join(f"{text_literal(key)} = {text_literal(value)}" for key, value in options.items())
        statement = f"INSERT INTO {identifier}{f' /*+ OPTIONS({hint}) */' if hint else ''} {table.expanded_query}"
        with temporary_options(self._configuration, wanted):
            job_id = self._session.submit(statement, f"Materialized_table_{identifier}_continuous_refresh_job")
        started = replace(table, status=RefreshStatus.ACTIVATED, handler=ContinuousRefreshHandler(job_id))
        self._store(identifier, started)

    def _stop_with_savepoint(self, identifier: ObjectIdentifier, job_id: str) -> str:
        directory = read_option(self._configuration, SAVEPOINT_DIRECTORY)
        if directory is None:
            raise ValidationError(
                "Savepoint directory is not configured, can't stop job with savepoint: set "
                f"'{SAVEPOINT_DIRECTORY.key}'.",
                details={"option": SAVEPOINT_DIRECTORY.key},
            )
        with self._cluster() as client:
            try:
                if client is None:
                    raise JobNotFoundError(f"job {job_id} is unknown: the cluster has ended")
                path = client.stop_with_savepoint(job_id, directory)
                client.wait_for_result(job_id)
            except JobNotFoundError as error:
                raise ValidationError(
                    f"Failed to suspend the continuous refresh job for materialized table {identifier}: {error.message}"
                ) from error
        return path

    def _runs(self, job_id: str) -> bool:
        with self._cluster() as client:
            if client is None:
                return False
            try:
                return not JobState(client.request_job_status(job_id)).is_terminal
            except JobNotFoundError:
                return False

    @contextmanager
    def _cluster(self) -> Iterator[ClusterClient | None]:
        client = self._session.cluster_client()
        try:
            yield client
        finally:
            if client is not None:
                client.close()

    # -- catalogs ------------------------------------------------------------------------------------------------------

    def _table(self, identifier: ObjectIdentifier) -> CatalogMaterializedTable:
        return self.get(identifier.parts)[1]

    def _store(self, identifier: ObjectIdentifier, table: CatalogMaterializedTable) -> None:
        self._catalogs.alter_table(identifier, table)

    def _resolved(self, identifier: ObjectIdentifier) -> ResolvedSchema:
        found = self._catalogs.get_table(identifier)
        assert found is not None
        return found.resolved_schema
