"""The errors of statements that the parser accepts and that are not executed: why, and what to do instead."""

from __future__ import annotations

from flinkpy.common.errors import FlinkError, TableProgramError, UnsupportedOperationError
from flinkpy.sql.parser import nodes as ast

#: The words of the statement, and the advice.
_REFUSED: dict[type[ast.Statement], tuple[str, str]] = {
    ast.BeginStatementSet: (
        "BEGIN STATEMENT SET",
        "Write EXECUTE STATEMENT SET BEGIN ... END as one statement, or use create_statement_set().",
    ),
    ast.EndStatementSet: ("END", "It belongs to EXECUTE STATEMENT SET BEGIN ... END, which is one statement."),
    ast.Jar: ("ADD JAR and REMOVE JAR", "There is no JVM; install Python packages instead."),
    ast.DescribeJob: ("DESCRIBE JOB", "Use the dashboard or `flinkpy list`."),
    ast.StopJob: ("STOP JOB", "Use `flinkpy stop` or the JobClient of the statement's result."),
    ast.Call: ("CALL", "Catalogs have no procedures."),
    ast.CreateMaterializedTable: ("CREATE MATERIALIZED TABLE", "Use CREATE TABLE and a job with INSERT."),
    ast.CreateModel: ("CREATE MODEL", "Call the model in a function in Python."),
    ast.CreateConnection: ("CREATE CONNECTION", "Give the options of the connection to each table."),
    ast.AlterFunction: ("ALTER FUNCTION", "Use DROP FUNCTION and CREATE FUNCTION."),
    ast.LoadModule: ("LOAD MODULE", "The module core is always loaded."),
    ast.UnloadModule: ("UNLOAD MODULE", "The module core is always loaded."),
    ast.UseModules: ("USE MODULES", "The module core is always used."),
}
#: Statements that change rows of a table, and what its sink would have to support for them.
_ROW_LEVEL: dict[type[ast.Statement], tuple[str, str]] = {
    ast.Update: ("update", "SupportsRowLevelUpdate"),
    ast.Delete: ("delete", "SupportsRowLevelDelete"),
    ast.TruncateTable: ("truncate table", "SupportsTruncate"),
}


def refusal(statement: ast.Statement, *, is_streaming: bool) -> FlinkError:
    """Returns the error for a statement that is not executed, with its place in the text."""
    at = statement.position
    place = f" (at line {at.line}, column {at.column})" if at.line else ""
    row_level = _ROW_LEVEL.get(type(statement))
    if row_level is not None:
        action, ability = row_level
        if is_streaming:
            return TableProgramError(f"{action.upper()} statement is not supported for streaming mode now{place}.")
        return UnsupportedOperationError(
            f"Can't perform {action} operation of the table {_table_name(statement)} because the corresponding dynamic "
            f"table sink has not yet implemented {ability}{place}."
        )
    if isinstance(statement, ast.AnalyzeTable):
        if is_streaming:
            return TableProgramError(f"ANALYZE TABLE is not supported for streaming mode now{place}.")
        return UnsupportedOperationError(
            f"flinkpy does not execute ANALYZE TABLE: its planner uses no statistics of tables{place}."
        )
    words, advice = _REFUSED.get(type(statement), (type(statement).__name__, ""))
    return UnsupportedOperationError(f"flinkpy does not execute {words}{place}. {advice}".rstrip())


def _table_name(statement: ast.Statement) -> str:
    table = getattr(statement, "table", None)
    while isinstance(table, ast.AliasedTable):
        table = table.table
    name = table.name if isinstance(table, ast.NamedTable) else table
    return ".".join(name.parts) if isinstance(name, ast.Identifier) else ""
