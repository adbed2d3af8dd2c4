"""Modules: functions without a catalog, looked up in the order of USE MODULES."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.table import EnvironmentSettings, Module, TableEnvironment
from flinkpy.table.module import HiveModule
from flinkpy.table.udf import udf


class Greetings(Module):
    """A module with a function of its own, and one that is named like a built-in one."""

    def list_functions(self) -> Collection[str]:
        return ("greet", "upper")

    def get_function(self, name: str) -> Any:
        return {
            "greet": udf(lambda name: f"hello {name}", result_type="STRING"),
            "upper": udf(lambda text: "mine", result_type="BIGINT"),
        }.get(name.lower())


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def listed(tables: TableEnvironment, statement: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(statement).collect() as rows:
        return [tuple(row) for row in rows]


def type_of(tables: TableEnvironment, expression: str) -> str:
    return str(tables.sql_query(f"SELECT {expression}").get_resolved_schema().columns[0].type)


def test_a_loaded_module_is_used_behind_the_others(tables: TableEnvironment) -> None:
    tables.load_module("mine", Greetings())
    assert tables.list_modules() == ["core", "mine"]
    assert type_of(tables, "GREET('a')") == "STRING"
    assert type_of(tables, "`UPPER`('a')") == "CHAR(1) NOT NULL"
    assert ("greet",) in listed(tables, "SHOW FUNCTIONS")


def test_the_order_of_use_modules_decides_which_function_a_name_is(tables: TableEnvironment) -> None:
    tables.load_module("mine", Greetings())
    tables.execute_sql("USE MODULES mine, core")
    assert type_of(tables, "`UPPER`('a')") == "BIGINT"
    assert listed(tables, "SHOW MODULES") == [("mine",), ("core",)]


def test_functions_of_a_module_that_is_not_used_are_unknown(tables: TableEnvironment) -> None:
    tables.load_module("mine", Greetings())
    tables.execute_sql("USE MODULES mine")
    assert listed(tables, "SHOW FULL MODULES") == [("mine", True), ("core", False)]
    assert [(each.name(), each.used()) for each in tables.list_full_modules()] == [("mine", True), ("core", False)]
    with pytest.raises(ValidationError, match="No match found for function signature LOWER"):
        tables.sql_query("SELECT LOWER('a')")
    assert type_of(tables, "1 + 1") == "INT NOT NULL"


def test_the_module_core_can_be_unloaded_and_loaded_again(tables: TableEnvironment) -> None:
    tables.execute_sql("UNLOAD MODULE core")
    assert listed(tables, "SHOW FUNCTIONS") == []
    tables.execute_sql("LOAD MODULE core")
    assert type_of(tables, "LOWER('a')") == "CHAR(1) NOT NULL"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("LOAD MODULE core", "Could not execute LOAD MODULE `core`. A module with name 'core' already exists"),
        ("LOAD MODULE x", "Could not find any factory for identifier 'x' .* are: core"),
        ("LOAD MODULE core WITH ('type' = 'core')", "'type' = 'core' is not supported since module name is used"),
        ("LOAD MODULE core WITH ('a' = 'b')", "Unsupported options for module core: a"),
        ("UNLOAD MODULE x", "Could not execute UNLOAD MODULE x. No module with name 'x' exists"),
        ("USE MODULES core, core", "Module 'core' appears more than once"),
        ("USE MODULES core, x", "No module with name 'x' exists"),
    ],
)
def test_a_wrong_module_is_named(tables: TableEnvironment, statement: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.execute_sql(statement)
    assert tables.list_modules() == ["core"]


def test_modules_of_hive_are_refused_for_what_they_are(tables: TableEnvironment) -> None:
    with pytest.raises(UnsupportedOperationError, match="Java classes"):
        tables.execute_sql("LOAD MODULE hive WITH ('hive-version' = '3.1.3')")
    with pytest.raises(UnsupportedOperationError, match="Java classes"):
        HiveModule("3.1.3")
