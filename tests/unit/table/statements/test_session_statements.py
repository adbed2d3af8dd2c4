"""Statements about resources, functions, catalogs and procedures of a session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common.errors import CatalogError, FunctionError, ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.catalog.catalog import GenericInMemoryCatalog
from flinkpy.table.catalog.identifiers import ObjectPath
from flinkpy.table.catalog.procedure import Procedure, ProcedureContext


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def listed(tables: TableEnvironment, statement: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(statement).collect() as rows:
        return [tuple(row) for row in rows]


def test_functions_of_an_added_file_can_be_registered(tables: TableEnvironment, tmp_path: Path) -> None:
    source = "from flinkpy.table.udf import udf\ntwice = udf(lambda n: 2 * n, result_type='BIGINT')\n"
    (tmp_path / "resource_of_a_session.py").write_text(source)
    path = str(tmp_path / "resource_of_a_session.py")
    tables.execute_sql(f"ADD JAR '{path}'")
    tables.execute_sql("CREATE FUNCTION twice AS 'resource_of_a_session.twice' LANGUAGE PYTHON")
    assert listed(tables, "SHOW JARS") == [(path,)]
    assert dict(listed(tables, "DESCRIBE FUNCTION twice")) == {"is system function": "false", "is temporary": "false"}
    tables.execute_sql(f"REMOVE JAR '{path}'")
    assert listed(tables, "SHOW JARS") == [] and str(tmp_path) not in sys.path
    with pytest.raises(ValidationError, match="was not added"):
        tables.execute_sql(f"REMOVE JAR '{path}'")


def test_a_resource_that_python_cannot_import_is_refused(tables: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("")
    with pytest.raises(ValidationError, match="no resource that Python can import"):
        tables.execute_sql(f"ADD JAR '{tmp_path / 'data.csv'}'")
    with pytest.raises(ValidationError, match="does not exist"):
        tables.execute_sql("ADD JAR '/nowhere/x.whl'")


def test_a_function_can_be_altered(tables: TableEnvironment) -> None:
    with pytest.raises(ValidationError, match="doesn't exist"):
        tables.execute_sql("ALTER FUNCTION f AS 'math.sqrt' LANGUAGE PYTHON")
    tables.execute_sql("ALTER FUNCTION IF EXISTS f AS 'math.sqrt' LANGUAGE PYTHON")
    tables.execute_sql("CREATE FUNCTION f AS 'math.sqrt' LANGUAGE PYTHON")
    tables.execute_sql("ALTER FUNCTION f AS 'math.floor' LANGUAGE PYTHON")
    catalog = tables.get_catalog("default_catalog")
    assert catalog is not None
    assert catalog.get_function(ObjectPath("default_database", "f")).class_name == "math.floor"


def test_built_in_functions_are_described_with_their_signatures(tables: TableEnvironment) -> None:
    facts = dict(listed(tables, "DESCRIBE FUNCTION EXTENDED sha2"))
    assert facts["is system function"] == "true" and facts["kind"] == "SCALAR"
    with pytest.raises(ValidationError, match=r"Function .*sha3 doesn't exist; did you mean"):
        tables.execute_sql("DESCRIBE FUNCTION sha3")


def test_a_catalog_can_be_altered_and_shown(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE CATALOG c COMMENT 'first' WITH ('type' = 'generic_in_memory')")
    tables.execute_sql("ALTER CATALOG c SET ('default-database' = 'db')")
    tables.execute_sql("ALTER CATALOG c COMMENT 'second'")
    (text,) = listed(tables, "SHOW CREATE CATALOG c")[0]
    assert text == (
        "CREATE CATALOG `c`\nCOMMENT 'second'\nWITH (\n"
        "  'type' = 'generic_in_memory',\n  'default-database' = 'db'\n)\n"
    )
    tables.execute_sql("USE CATALOG c")
    assert tables.get_current_database() == "db"
    tables.execute_sql("ALTER CATALOG c RESET ('default-database')")
    assert dict(listed(tables, "DESCRIBE CATALOG EXTENDED c"))["option:type"] == "generic_in_memory"
    with pytest.raises(ValidationError, match="does not support changing 'type'"):
        tables.execute_sql("ALTER CATALOG c RESET ('type')")
    with pytest.raises(CatalogError, match="does not exist in the catalog store"):
        tables.execute_sql("ALTER CATALOG default_catalog SET ('a' = 'b')")


class Repeat(Procedure):
    """Returns a text several times, numbered."""

    result_type = "ROW<place INT, text STRING>"

    def call(self, context: ProcedureContext, text: str, times: int = 1) -> list[tuple[int, str]]:  # type: ignore[override]
        assert context.execution_environment.get_parallelism() > 0
        if times < 0:
            raise ValueError("times is negative")
        return [(place, text) for place in range(times)]


class CatalogWithProcedures(GenericInMemoryCatalog):
    """A catalog with one procedure."""

    def list_procedures(self, database_name: str) -> list[str]:
        return ["repeat_text"] if database_name == "sys" else []

    def get_procedure(self, procedure_path: ObjectPath) -> Procedure:
        return Repeat()


def test_call_runs_a_procedure_of_a_catalog(tables: TableEnvironment) -> None:
    tables.register_catalog("c", CatalogWithProcedures("c", "sys"))
    tables.execute_sql("USE CATALOG c")
    assert listed(tables, "SHOW PROCEDURES LIKE 'rep%'") == [("repeat_text",)]
    assert listed(tables, "CALL sys.repeat_text('a', 1 + 1)") == [(0, "a"), (1, "a")]
    assert listed(tables, "CALL repeat_text(`text` => 'b', times => 1)") == [(0, "b")]
    with pytest.raises(ValidationError, match=r"Invalid arguments of procedure sys.repeat_text: too many"):
        tables.execute_sql("CALL repeat_text('a', 1, 2)")
    with pytest.raises(ValidationError, match="No match found for function signature repeat_txt; did you mean"):
        tables.execute_sql("CALL repeat_txt('a')")
    with pytest.raises(FunctionError, match="times is negative"):
        tables.execute_sql("CALL repeat_text('a', -1)")
