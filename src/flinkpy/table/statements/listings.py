"""SHOW, SHOW CREATE and DESCRIBE.

Source: org.apache.flink.table.operations.Show*Operation, org.apache.flink.table.api.internal.ShowCreateUtil.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flinkpy.common.errors import CatalogError, UnsupportedOperationError, ValidationError
from flinkpy.configuration.redaction import HIDDEN, is_sensitive
from flinkpy.sql.functions.registry import find_function
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types.logical_types import VarCharType
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_tables import CatalogTable, CatalogView, ContextResolvedTable, QueryView
from flinkpy.table.catalog.function_catalog import FunctionCatalog
from flinkpy.table.catalog.identifiers import quoted
from flinkpy.table.catalog.materialized_table import CatalogMaterializedTable
from flinkpy.table.catalog.resolved_schema import Column, ComputedColumn, MetadataColumn
from flinkpy.table.catalog.resolved_schema import ResolvedSchema as Resolved
from flinkpy.table.planner.errors import did_you_mean
from flinkpy.table.schema import UnresolvedComputedColumn, UnresolvedMetadataColumn
from flinkpy.table.statements.alterations import partition_spec
from flinkpy.table.statements.refusals import no_connections
from flinkpy.table.table_result import TableResult


def listed(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> TableResult:
    """Returns a result of text columns."""
    return TableResult.of_rows(Resolved.physical(*((name, VarCharType()) for name in names)), list(rows))


def show(statement: ast.Show, catalogs: CatalogManager, functions: FunctionCatalog) -> TableResult:
    """Returns the names that SHOW asks for, in order."""
    matches = matcher(statement.like)
    match statement.kind:
        case "CATALOGS":
            return name_list("catalog name", catalogs.catalog_names, matches)
        case "CURRENT CATALOG":
            return listed(("current catalog name",), [(catalogs.current_catalog,)])
        case "CURRENT DATABASE":
            return listed(("current database name",), [(catalogs.current_database,)])
        case "DATABASES":
            container = statement.container.last if statement.container is not None else catalogs.current_catalog
            if container is None:
                raise ValidationError("A current catalog has not been set: use SHOW DATABASES IN catalog.")
            return name_list("database name", catalogs.catalog_or_error(container).list_databases(), matches)
        case "TABLES":
            return name_list("table name", catalogs.list_tables(*_place(statement.container, catalogs)), matches)
        case "MATERIALIZED TABLES":
            catalog, database = given_or_current(statement.container, catalogs)
            return name_list("materialized table name", catalogs.list_materialized_tables(catalog, database), matches)
        case "VIEWS":
            return name_list("view name", catalogs.list_views(*_place(statement.container, catalogs)), matches)
        case "FUNCTIONS":
            return name_list("function name", _functions(statement, catalogs, functions), matches)
        case "USER FUNCTIONS":
            return name_list("function name", _functions(statement, catalogs, functions, only_users=True), matches)
        case "PROCEDURES":
            catalog, database = given_or_current(statement.container, catalogs)
            return name_list("procedure name", catalogs.catalog_or_error(catalog).list_procedures(database), matches)
        case "CONNECTIONS":
            raise no_connections(statement)
        case "COLUMNS":
            assert statement.container is not None
            table = catalogs.get_table_or_error(statement.container.parts)
            rows = [row for row in _described(table) if matches(row[0])]
            return _description(table, rows)
        case "PARTITIONS":
            assert statement.container is not None
            identifier = catalogs.qualify(statement.container.parts)
            wanted = dict(partition_spec(statement.partition))
            found = catalogs.catalog_or_error(identifier.catalog_name).list_partitions(identifier.to_object_path())
            kept = [dict(each) for each in found if wanted.items() <= dict(each).items()]
            return listed(("partition name",), [("/".join(f"{k}={v}" for k, v in each.items()),) for each in kept])
    raise UnsupportedOperationError(f"flinkpy does not have SHOW {statement.kind} yet")


def name_list(title: str, names: Iterable[str], matches: Callable[[str], bool]) -> TableResult:
    return listed((title,), [(name,) for name in sorted(names) if matches(name)])


def _functions(
    statement: ast.Show, catalogs: CatalogManager, functions: FunctionCatalog, *, only_users: bool = False
) -> set[str]:
    """Returns the names of functions: all that an unqualified name can stand for, or those of a database."""
    if statement.container is not None:
        catalog, database = given_or_current(statement.container, catalogs)
        return set(catalogs.catalog_or_error(catalog).list_functions(database))
    found = set(functions.user_functions())
    return found if only_users else found.union(functions.builtin_names())


def given_or_current(container: ast.Identifier | None, catalogs: CatalogManager) -> tuple[str, str]:
    """Returns the catalog and the database of IN or FROM, or the current ones."""
    catalog, database = _place(container, catalogs)
    catalog, database = catalog or catalogs.current_catalog, database or catalogs.current_database
    if catalog is None or database is None:
        raise ValidationError("A current database has not been set: name one with IN.")
    return catalog, database


def _place(container: ast.Identifier | None, catalogs: CatalogManager) -> tuple[str | None, str | None]:
    if container is None:
        return None, None
    parts = container.parts
    catalog = parts[0] if len(parts) == 2 else catalogs.current_catalog
    if catalog is None or not catalogs.catalog_or_error(catalog).database_exists(parts[-1]):
        raise CatalogError(f"Database '{catalog}'.'{parts[-1]}' doesn't exist.")
    return catalog, parts[-1]


def matcher(like: ast.ShowLike | None) -> Callable[[str], bool]:
    """Returns a test for names by a pattern of LIKE: % for any characters, _ for one, a backslash before either."""
    if like is None:
        return lambda name: True
    parts = re.split(r"(\\.|[%_])", like.pattern)
    wild = {"%": ".*", "_": "."}
    pattern = "".join(wild.get(part) or re.escape(part[1:] if part[:1] == "\\" else part) for part in parts)
    compiled = re.compile(pattern, re.DOTALL | (re.IGNORECASE if like.ignore_case else 0))
    return lambda name: (compiled.fullmatch(name) is not None) != like.negated


# -- DESCRIBE ---------------------------------------------------------------------------------------------------------


def describe(statement: ast.Describe, catalogs: CatalogManager, functions: FunctionCatalog) -> TableResult:
    """Returns the columns of a table or view, or the facts of a function, database or catalog."""
    match statement.kind:
        case "TABLE":
            table = catalogs.get_table_or_error(statement.name.parts)
            return _description(table, _described(table))
        case "DATABASE":
            parts = statement.name.parts
            catalog = parts[0] if len(parts) == 2 else catalogs.current_catalog
            if catalog is None:
                raise ValidationError("A current catalog has not been set.")
            database = catalogs.catalog_or_error(catalog).get_database(parts[-1])
            rows = [("Name", parts[-1]), ("Catalog", catalog), ("Comment", database.comment)]
            if statement.extended:
                rows += [(f"Property {key}", value) for key, value in sorted(database.properties.items())]
            return listed(("info name", "info value"), rows)
        case "CATALOG":
            name = statement.name.last
            catalog_object, options = catalogs.catalog_or_error(name), catalogs.catalog_options(name)
            kind = options.get("type") or type(catalog_object).__name__
            rows = [("name", name), ("type", kind), ("comment", catalogs.catalog_comment(name))]
            if statement.extended:
                rows += [(f"option:{key}", _shown(key, value)) for key, value in sorted(options.items())]
            return listed(("info name", "info value"), rows)
        case "FUNCTION":
            return _described_function(statement, catalogs, functions)
        case "CONNECTION":
            raise no_connections(statement)
    raise UnsupportedOperationError(f"flinkpy does not have DESCRIBE {statement.kind} yet")


def _described_function(statement: ast.Describe, catalogs: CatalogManager, functions: FunctionCatalog) -> TableResult:
    """Source: org.apache.flink.table.operations.DescribeFunctionOperation."""
    parts = statement.name.parts
    user = functions.user_function(parts)
    if user is None and not (len(parts) == 1 and functions.is_builtin(parts[0])):
        name = ".".join(catalogs.qualify(parts).parts) if len(parts) < 4 else ".".join(parts)
        raise ValidationError(
            f"Function {name} doesn't exist{did_you_mean(parts[-1], functions.builtin_names())}",
            details={"function": parts[-1]},
        )
    if user is None:
        found = find_function(parts[0])
        assert found is not None
        rows = [("is system function", "true"), ("is temporary", "false")]
        kind, is_deterministic = found.kind.name, found.is_deterministic
        details = [("signature", f"{found.name}({each})") for each in found.signatures]
    else:
        is_system = len(parts) == 1 and functions.temporary_system_function(parts[0]) is not None
        rows = [("is system function", _bool(is_system)), ("is temporary", _bool(functions.is_temporary(parts)))]
        kind, is_deterministic = user.kind, user.is_deterministic
        given = user.function
        named = given if hasattr(given, "__qualname__") else type(given)
        details = [("class name", f"{named.__module__}.{named.__qualname__}"), ("function language", "PYTHON")]
    if statement.extended:
        rows += [("kind", kind), ("is deterministic", _bool(is_deterministic)), *details]
    return listed(("info name", "info value"), rows)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _description(table: ContextResolvedTable, rows: list[tuple[Any, ...]]) -> TableResult:
    names = ["name", "type", "null", "key", "extras", "watermark"]
    if any(column.comment for column in table.resolved_schema.columns):
        names.append("comment")
    return listed(names, [row[: len(names)] for row in rows])


def _described(table: ContextResolvedTable) -> list[tuple[Any, ...]]:
    schema = table.resolved_schema
    key = schema.primary_key
    shown_key = None if key is None else f"PRI({', '.join(key.columns)})"
    rows: list[tuple[Any, ...]] = []
    for column in schema.columns:
        watermark = schema.watermark
        rows.append(
            (
                column.name,
                column.type.as_sql(),
                "TRUE" if column.type.nullable else "FALSE",
                shown_key if key is not None and column.name in key.columns else None,
                _extras(column),
                f"{watermark.sql}" if watermark is not None and watermark.rowtime_column == column.name else None,
                column.comment,
            )
        )
    return rows


def _extras(column: Column) -> str | None:
    if isinstance(column, ComputedColumn):
        return f"AS {column.sql}"
    if isinstance(column, MetadataColumn):
        source = "" if column.metadata_key is None else f" FROM '{column.metadata_key}'"
        return f"METADATA{source}{' VIRTUAL' if column.is_virtual else ''}"
    return None


# -- SHOW CREATE ------------------------------------------------------------------------------------------------------


def show_create(statement: ast.ShowCreate, catalogs: CatalogManager) -> TableResult:
    """Returns the statement that creates the object again. Values of secret options are hidden."""
    if statement.kind == "CATALOG":
        return TableResult.of_text(_create_catalog(statement.name.last, catalogs))
    if statement.kind == "CONNECTION":
        raise no_connections(statement)
    if statement.kind not in ("TABLE", "VIEW", "MATERIALIZED TABLE"):
        raise UnsupportedOperationError(f"flinkpy does not have SHOW CREATE {statement.kind} yet")
    found = catalogs.get_table_or_error(statement.name.parts)
    is_view = not isinstance(found.table, CatalogTable)
    is_materialized = isinstance(found.table, CatalogMaterializedTable)
    kind = "VIEW" if is_view else "MATERIALIZED TABLE" if is_materialized else "TABLE"
    if kind != statement.kind:
        raise ValidationError(
            f"SHOW CREATE {statement.kind} is only supported for {statement.kind.lower()}s, but {found.identifier} is "
            f"a {kind.lower()}. Please use SHOW CREATE {kind} instead."
        )
    text = _create_view(found) if is_view else _create_table(found)
    return TableResult.of_text(text)


def _create_catalog(name: str, catalogs: CatalogManager) -> str:
    catalogs.catalog_or_error(name)
    comment = catalogs.catalog_comment(name)
    lines = [f"CREATE CATALOG {quoted(name)}"]
    if comment:
        lines.append(f"COMMENT {quoted_text(comment)}")
    return "\n".join([*lines, with_options(catalogs.catalog_options(name))]) + "\n"


def with_options(options: dict[str, str]) -> str:
    """Returns WITH (...). Values of secret options are hidden."""
    texts = [f"  {quoted_text(key)} = {quoted_text(_shown(key, value))}" for key, value in options.items()]
    return "\n".join(["WITH (", ",\n".join(texts), ")"])


def _shown(key: str, value: str) -> str:
    return HIDDEN if is_sensitive(key) else value


def _create_view(found: ContextResolvedTable) -> str:
    if isinstance(found.table, QueryView):
        raise ValidationError(
            f"SHOW CREATE VIEW is not supported for views registered by Table API: {found.identifier}"
        )
    assert isinstance(found.table, CatalogView)
    temporary = "TEMPORARY " if found.is_temporary else ""
    names = ",\n  ".join(map(quoted, found.resolved_schema.column_names))
    comment = f"\nCOMMENT {quoted_text(found.table.comment)}" if found.table.comment else ""
    return f"CREATE {temporary}VIEW {found.identifier} (\n  {names}\n){comment}\nAS {found.table.expanded_query}\n"


def _create_table(found: ContextResolvedTable) -> str:
    table, resolved = found.table, found.resolved_schema
    assert isinstance(table, CatalogTable)
    parts = []
    for declared, column in zip(table.schema.columns, resolved.columns):
        comment = f" COMMENT {quoted_text(column.comment)}" if column.comment else ""
        if isinstance(declared, UnresolvedComputedColumn):
            parts.append(f"{quoted(column.name)} AS {declared.expression}{comment}")
            continue
        extra = ""
        if isinstance(declared, UnresolvedMetadataColumn):
            source = "" if declared.metadata_key is None else f" FROM {quoted_text(declared.metadata_key)}"
            extra = f" METADATA{source}{' VIRTUAL' if declared.is_virtual else ''}"
        parts.append(f"{quoted(column.name)} {_declared_type(column)}{extra}{comment}")
    parts += [f"WATERMARK FOR {quoted(each.column)} AS {each.expression}" for each in table.schema.watermarks]
    if table.schema.primary_key is not None:
        name, columns = table.schema.primary_key
        parts.append(f"CONSTRAINT {quoted(name)} PRIMARY KEY ({', '.join(map(quoted, columns))}) NOT ENFORCED")
    kind = "MATERIALIZED TABLE" if isinstance(table, CatalogMaterializedTable) else "TABLE"
    lines = [f"CREATE {'TEMPORARY ' if found.is_temporary else ''}{kind} {found.identifier} ("]
    lines += [",\n".join(f"  {part}" for part in parts), ")"]
    if table.comment:
        lines.append(f"COMMENT {quoted_text(table.comment)}")
    if table.distribution is not None:
        lines.append(_distribution(table.distribution))
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})")
    lines.append(with_options(table.options))
    if isinstance(table, CatalogMaterializedTable):
        lines += [f"FRESHNESS = {table.freshness}", f"REFRESH_MODE = {table.refresh_mode.value}"]
        lines.append(f"AS {table.expanded_query}")
    return "\n".join(lines) + "\n"


def _declared_type(column: Column) -> str:
    kind = column.type
    if hasattr(kind, "time_attribute"):
        # The watermark makes a column an attribute; the declaration has the plain type.
        shown = str(kind)
        return re.sub(r" \*(ROWTIME|PROCTIME)\*", "", shown)
    return str(kind)


def _distribution(distribution: tuple[str | None, int | None, tuple[str, ...]]) -> str:
    kind, buckets, columns = distribution
    by = f" BY {f'{kind} ' if kind else ''}({', '.join(map(quoted, columns))})" if columns else ""
    into = f" INTO {buckets} BUCKETS" if buckets is not None else ""
    return f"DISTRIBUTED{by}{into}"


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
