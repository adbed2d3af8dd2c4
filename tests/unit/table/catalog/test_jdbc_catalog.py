"""The catalog of a PostgreSQL server: types of its columns, and the options of CREATE CATALOG."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table.catalog.catalog_factories import create_catalog
from flinkpy.table.catalog.jdbc_catalog import type_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("integer", "INT"),
        ("double precision", "DOUBLE"),
        ("numeric", "DECIMAL(38, 18)"),
        ("numeric(6,2)", "DECIMAL(6, 2)"),
        ("character varying(9)", "VARCHAR(9)"),
        ("character varying", "STRING"),
        ("character(3)", "CHAR(3)"),
        ("timestamp without time zone", "TIMESTAMP(6)"),
        ("timestamp(3) without time zone", "TIMESTAMP(3)"),
        ("timestamp(3) with time zone", "TIMESTAMP_LTZ(3)"),
        ("timestamp with time zone", "TIMESTAMP_LTZ(6)"),
        ("time(0) without time zone", "TIME(0)"),
        ("bytea", "BYTES"),
        ("text[]", "ARRAY<STRING>"),
        ("bigint[]", "ARRAY<BIGINT>"),
        ("jsonb", "None"),
        ("numeric(50,2)", "None"),
        ("time with time zone", "None"),
    ],
)
def test_types_of_postgresql_have_counterparts(text: str, expected: str) -> None:
    assert str(type_of(text)) == expected


def test_options_of_the_catalog_are_checked() -> None:
    options = {"type": "jdbc", "default-database": "d", "username": "u", "password": "p", "base-url": "jdbc:mysql://h"}
    with pytest.raises(ValidationError, match="must begin with jdbc:postgresql://"):
        create_catalog("c", options)
    with pytest.raises(ValidationError, match="missing for catalog type jdbc: base-url"):
        create_catalog("c", {key: text for key, text in options.items() if key != "base-url"})
