"""Grammar of statements as a whole, and of those that are no definitions."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.sql.parser.alter import AlterParser
from flinkpy.sql.parser.cursor import TokenCursor
from flinkpy.sql.parser.definitions import DefinitionParser
from flinkpy.sql.parser.expressions import ExpressionParser
from flinkpy.sql.parser.nodes import (
    AliasedTable,
    Assignment,
    BeginStatementSet,
    Call,
    CompilePlan,
    CreateTable,
    Delete,
    Describe,
    DescribeJob,
    EndStatementSet,
    Execute,
    ExecutePlan,
    Explain,
    Identifier,
    Insert,
    Jar,
    LoadModule,
    NamedTable,
    QueryStatement,
    ResetOption,
    SetOption,
    Show,
    ShowCreate,
    ShowLike,
    Statement,
    StatementSet,
    StopJob,
    TableReference,
    TruncateTable,
    UnloadModule,
    Update,
    Use,
    UseModules,
)
from flinkpy.sql.parser.queries import QueryParser
from flinkpy.sql.parser.tables import TableParser
from flinkpy.sql.parser.tokens import END, Token
from flinkpy.sql.parser.types import TypeParser

_EXPLAIN_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_QUERY_START = ("SELECT", "WITH", "VALUES", "TABLE", "(")
#: Lists of SHOW with [FROM | IN container] and [NOT] LIKE, and whether they take ILIKE too.
_SHOW_LISTS = {
    "DATABASES": True,
    "TABLES": False,
    "VIEWS": False,
    "FUNCTIONS": True,
    "PROCEDURES": True,
    "MODELS": False,
    "CONNECTIONS": False,
}
_DESCRIBED = ("CATALOG", "DATABASE", "FUNCTION", "MODEL", "CONNECTION")


class StatementParser:
    """Parses statements. Its parts share one cursor."""

    def __init__(self, cursor: TokenCursor) -> None:
        self._cursor = cursor
        types = TypeParser(cursor)
        self.expressions = ExpressionParser(cursor, types)
        self.queries = QueryParser(cursor, self.expressions)
        self._tables = TableParser(cursor, types, self.expressions)
        self._definitions = DefinitionParser(cursor, self.queries, self._tables)
        alter = AlterParser(cursor, self.queries, self._tables, self._definitions)
        self._statements: dict[str, Callable[[], Statement]] = {
            **dict.fromkeys(_QUERY_START, self._query_statement),
            **self._definitions.statements,
            "ALTER": alter.alter,
            "INSERT": self._insert,
            "UPSERT": self._insert,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "TRUNCATE": self._truncate,
            "BEGIN": self._begin_statement_set,
            "END": self._end_statement_set,
            "EXECUTE": self._execute,
            "COMPILE": self._compile,
            "CALL": self._call,
            "EXPLAIN": self._explain,
            "DESCRIBE": self._describe,
            "DESC": self._describe,
            "SHOW": self._show,
            "USE": self._use,
            "LOAD": self._load,
            "UNLOAD": self._unload,
            "SET": self._set,
            "RESET": self._reset,
            "ADD": self._jar,
            "REMOVE": self._jar,
            "STOP": self._stop,
        }

    def statement(self) -> Statement:
        """Parses one statement, up to a semicolon or the end."""
        cursor = self._cursor
        cursor.considered(self._statements)
        parse = self._statements.get(cursor.symbol)
        if parse is None:
            raise cursor.unexpected()
        return parse()

    def statements(self) -> list[Statement]:
        """Parses statements with semicolons between them, up to the end of the text."""
        cursor = self._cursor
        found: list[Statement] = []
        while True:
            while cursor.accept(";"):
                continue
            if cursor.at(END):
                return found
            found.append(self.statement())
            if not cursor.at(";"):
                cursor.expect(END)

    def _query_statement(self) -> Statement:
        start = self._cursor.token
        query = self.queries.query()
        return QueryStatement(query, position=self._cursor.since(start))

    # Statements that change rows -------------------------------------------------------------------------------------

    def _insert(self) -> Insert:
        cursor = self._cursor
        start = cursor.token
        upsert = cursor.expect_any("INSERT", "UPSERT") == "UPSERT"
        place = cursor.token
        overwrite = cursor.expect_any("INTO", "OVERWRITE") == "OVERWRITE"
        if upsert and overwrite:
            raise cursor.error_on(place.position, "OVERWRITE expression is only used with INSERT statement.")
        table = cursor.identifier()
        hints = self.queries.hints()
        columns: tuple[Identifier, ...] = ()
        partition = self._tables.partition() if cursor.accept("PARTITION") else ()
        if cursor.at("(") and cursor.peek() not in (*_QUERY_START,):
            columns = cursor.in_parentheses(cursor.identifier)
        query = self.queries.query()
        on_conflict = None
        if cursor.accept("ON"):
            cursor.expect_all("CONFLICT", "DO")
            on_conflict = cursor.expect_any("NOTHING", "ERROR", "DEDUPLICATE")
        return Insert(
            table, query, columns, partition, overwrite, hints, on_conflict, upsert, position=cursor.since(start)
        )

    def _target(self) -> TableReference:
        """Parses the table of UPDATE or DELETE with its alias."""
        cursor = self._cursor
        start = cursor.token
        table: TableReference = NamedTable(cursor.identifier(), self.queries.hints(), position=cursor.since(start))
        if cursor.accept("AS") or cursor.at_name():
            table = AliasedTable(table, cursor.simple_identifier(), position=cursor.since(start))
        return table

    def _update(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("UPDATE")
        table = self._target()
        cursor.expect("SET")
        assignments = cursor.separated(self._assignment)
        where = self.expressions.expression() if cursor.accept("WHERE") else None
        return Update(table, assignments, where, position=cursor.since(start))

    def _assignment(self) -> Assignment:
        cursor = self._cursor
        start = cursor.token
        column = cursor.simple_identifier()
        cursor.expect("=")
        return Assignment(column, self.expressions.expression(), position=cursor.since(start))

    def _delete(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("DELETE")
        cursor.expect("FROM")
        table = self._target()
        where = self.expressions.expression() if cursor.accept("WHERE") else None
        return Delete(table, where, position=cursor.since(start))

    def _truncate(self) -> Statement:
        start = self._cursor.expect("TRUNCATE")
        self._cursor.expect("TABLE")
        return TruncateTable(self._cursor.identifier(), position=self._cursor.since(start))

    # Statement sets and plans ----------------------------------------------------------------------------------------

    def _statement_set(self) -> StatementSet:
        cursor = self._cursor
        start = cursor.expect("STATEMENT")
        cursor.expect_all("SET", "BEGIN")
        inserts = []
        while True:
            inserts.append(self._insert())
            cursor.expect(";")
            if not cursor.at_any(("INSERT", "UPSERT")):
                break
        cursor.expect("END")
        return StatementSet(tuple(inserts), position=cursor.since(start))

    def _begin_statement_set(self) -> Statement:
        start = self._cursor.token
        self._cursor.expect_all("BEGIN", "STATEMENT", "SET")
        return BeginStatementSet(position=self._cursor.since(start))

    def _end_statement_set(self) -> Statement:
        return EndStatementSet(position=self._cursor.expect("END").position)

    def _executable(self, others: dict[str, Callable[[], Statement]]) -> Statement:
        """Parses a statement set, an insert, or one of the others by its keyword."""
        cursor = self._cursor
        allowed = {"STATEMENT": self._statement_set, "INSERT": self._insert, "UPSERT": self._insert, **others}
        cursor.considered(allowed)
        parse = allowed.get(cursor.symbol)
        if parse is None:
            raise cursor.unexpected()
        return parse()

    def _execute(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("EXECUTE")
        if cursor.accept_all("PLAN"):
            return ExecutePlan(self.expressions.literals.plain_string(), position=cursor.since(start))
        statement = self._executable(dict.fromkeys(_QUERY_START, self._query_statement))
        return Execute(statement, position=cursor.since(start))

    def _compile(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("COMPILE")
        execute = cursor.accept("AND")
        if execute:
            cursor.expect("EXECUTE")
        cursor.expect("PLAN")
        path = self.expressions.literals.plain_string()
        if_not_exists = not execute and cursor.accept_all("IF", "NOT", "EXISTS")
        cursor.expect("FOR")
        return CompilePlan(path, self._executable({}), if_not_exists, execute, position=cursor.since(start))

    def _call(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("CALL")
        name_start = cursor.token
        name = cursor.identifier()
        return Call(self.expressions.calls.call(name, name_start), position=cursor.since(start))

    # Statements that look at things ----------------------------------------------------------------------------------

    def _explain(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("EXPLAIN")
        details: list[str] = []
        if cursor.accept("PLAN"):
            cursor.expect("FOR")
        elif cursor.at_any(_EXPLAIN_DETAILS):
            while True:
                place = cursor.token
                detail = cursor.expect_any(*_EXPLAIN_DETAILS)
                if detail in details:
                    raise cursor.error_on(place.position, "Duplicate EXPLAIN DETAIL is not allowed.")
                details.append(detail)
                if not cursor.accept(","):
                    break
        others: dict[str, Callable[[], Statement]] = {
            **dict.fromkeys(_QUERY_START, self._query_statement),
            "EXECUTE": self._execute,
            "CREATE": self._definitions.create,
            "REPLACE": self._definitions.replace_table,
        }
        statement = self._executable(others)
        if not self._is_explainable(statement):
            raise cursor.error_on(
                statement.position,
                "Unsupported CREATE OR REPLACE statement for EXPLAIN. "
                "The statement must define a query using the AS clause (i.e. CTAS/RTAS statements).",
            )
        return Explain(statement, tuple(details), position=cursor.since(start))

    @staticmethod
    def _is_explainable(statement: Statement) -> bool:
        if isinstance(statement, CreateTable):
            return statement.query is not None
        return not type(statement).__name__.startswith("Create")

    def _describe(self) -> Statement:
        cursor = self._cursor
        start = cursor.advance()
        if cursor.accept("JOB"):
            return DescribeJob(cursor.string(), position=cursor.since(start))
        kind = "TABLE"
        if cursor.at_any(_DESCRIBED):
            kind = cursor.advance().symbol
        extended = cursor.accept("EXTENDED")
        name = cursor.simple_identifier() if kind == "CATALOG" else cursor.identifier()
        return Describe(kind, name, extended, position=cursor.since(start))

    def _show(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("SHOW")
        if cursor.accept("CREATE"):
            return self._show_create(start)
        if cursor.accept("CURRENT"):
            kind = cursor.expect_any("CATALOG", "DATABASE")
            return Show(f"CURRENT {kind}", position=cursor.since(start))
        if cursor.accept("CATALOGS"):
            return Show("CATALOGS", like=self._show_like(ignore_case_allowed=True), position=cursor.since(start))
        if cursor.accept("COLUMNS"):
            cursor.expect_any("FROM", "IN")
            table = cursor.identifier()
            return Show("COLUMNS", table, self._show_like(), position=cursor.since(start))
        if cursor.accept("PARTITIONS"):
            table = cursor.identifier()
            partition = self._tables.partition() if cursor.accept("PARTITION") else ()
            return Show("PARTITIONS", table, partition=partition, position=cursor.since(start))
        if cursor.at_any(("MODULES", "JARS", "JOBS")):
            return Show(cursor.advance().symbol, position=cursor.since(start))
        if cursor.accept("FULL"):
            cursor.expect("MODULES")
            return Show("FULL MODULES", position=cursor.since(start))
        return self._show_list(start)

    def _show_list(self, start: Token) -> Statement:
        cursor = self._cursor
        if cursor.accept("USER"):
            kind, prefix = cursor.expect("FUNCTIONS").symbol, "USER "
        elif cursor.accept("MATERIALIZED"):
            kind, prefix = cursor.expect("TABLES").symbol, "MATERIALIZED "
        else:
            kind, prefix = cursor.expect_any(*_SHOW_LISTS), ""
        container = None
        if cursor.accept("FROM") or cursor.accept("IN"):
            container = cursor.simple_identifier() if kind == "DATABASES" else cursor.identifier()
        like = self._show_like(ignore_case_allowed=_SHOW_LISTS[kind])
        return Show(prefix + kind, container, like, position=cursor.since(start))

    def _show_like(self, *, ignore_case_allowed: bool = False) -> ShowLike | None:
        cursor = self._cursor
        start = cursor.token
        negated = cursor.accept("NOT")
        ignore_case = ignore_case_allowed and cursor.accept("ILIKE")
        if not (ignore_case or cursor.accept("LIKE")):
            if negated:
                raise cursor.unexpected()
            return None
        return ShowLike(cursor.string(), negated, ignore_case, position=cursor.since(start))

    def _show_create(self, start: Token) -> Statement:
        cursor = self._cursor
        kind = cursor.expect_any("TABLE", "VIEW", "MATERIALIZED", "CATALOG", "MODEL", "CONNECTION")
        if kind == "MATERIALIZED":
            cursor.expect("TABLE")
            kind = "MATERIALIZED TABLE"
        name = cursor.simple_identifier() if kind == "CATALOG" else cursor.identifier()
        return ShowCreate(kind, name, position=cursor.since(start))

    # Statements that configure the session ---------------------------------------------------------------------------

    def _use(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("USE")
        if cursor.accept("MODULES"):
            return UseModules(cursor.separated(cursor.simple_identifier), position=cursor.since(start))
        if cursor.accept("CATALOG"):
            return Use("CATALOG", cursor.simple_identifier(), position=cursor.since(start))
        return Use("DATABASE", cursor.identifier(), position=cursor.since(start))

    def _load(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("LOAD")
        cursor.expect("MODULE")
        name = cursor.simple_identifier()
        return LoadModule(name, self._tables.optional_options(), position=cursor.since(start))

    def _unload(self) -> Statement:
        start = self._cursor.expect("UNLOAD")
        self._cursor.expect("MODULE")
        return UnloadModule(self._cursor.simple_identifier(), position=self._cursor.since(start))

    def _set(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("SET")
        if cursor.at_any((END, ";")):
            return SetOption(position=start.position)
        key = self.expressions.literals.plain_string()
        cursor.expect("=")
        value = self.expressions.literals.plain_string()
        return SetOption(key, value, position=cursor.since(start))

    def _reset(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("RESET")
        if cursor.at_any((END, ";")):
            return ResetOption(position=start.position)
        return ResetOption(self.expressions.literals.plain_string(), position=cursor.since(start))

    def _jar(self) -> Statement:
        cursor = self._cursor
        start = cursor.token
        verb = cursor.advance().symbol
        cursor.expect("JAR")
        return Jar(verb, cursor.string(), position=cursor.since(start))

    def _stop(self) -> Statement:
        cursor = self._cursor
        start = cursor.expect("STOP")
        cursor.expect("JOB")
        job_id = cursor.string()
        with_savepoint = cursor.accept_all("WITH", "SAVEPOINT")
        place = cursor.token
        with_drain = cursor.accept_all("WITH", "DRAIN")
        if with_drain and not with_savepoint:
            raise cursor.error_on(cursor.since(place), "WITH DRAIN could only be used after WITH SAVEPOINT.")
        return StopJob(job_id, with_savepoint, with_drain, position=cursor.since(start))
