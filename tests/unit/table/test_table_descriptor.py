"""Descriptors say what CREATE TABLE says, with and without a name in a catalog."""

from __future__ import annotations

import pytest

from flinkpy.common.config_options import ConfigOptions
from flinkpy.common.errors import ValidationError
from flinkpy.table import DataTypes, EnvironmentSettings, FormatDescriptor, Schema, TableDescriptor, TableEnvironment
from flinkpy.table.expressions import col

SCHEMA = Schema.new_builder().column("f0", DataTypes.STRING()).build()


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def test_a_descriptor_has_what_its_builder_got() -> None:
    flag = ConfigOptions.key("b").boolean_type().no_default_value()
    builder = TableDescriptor.for_connector("test").schema(SCHEMA).partitioned_by("f0").comment("Test Comment")
    descriptor = builder.option("a", 3).option(flag, True).build()
    assert descriptor.get_schema() == SCHEMA
    assert descriptor.get_partition_keys() == ["f0"]
    assert descriptor.get_comment() == "Test Comment"
    assert descriptor.get_options() == {"connector": "test", "a": "3", "b": "true"}
    assert str(descriptor).splitlines()[-7:] == [
        "COMMENT 'Test Comment'",
        "PARTITIONED BY (`f0`)",
        "WITH (",
        "  'connector' = 'test',",
        "  'a' = '3',",
        "  'b' = 'true'",
        ")",
    ]
    assert descriptor == builder.build() and hash(descriptor) == hash(builder.build())
    assert descriptor != builder.option("a", 4).build()


def test_options_of_a_format_begin_with_its_name() -> None:
    json = FormatDescriptor.for_format("json").option("ignore-parse-errors", True).build()
    value = ConfigOptions.key("value.format").string_type().no_default_value()
    descriptor = TableDescriptor.for_connector("kafka").format(json, value).format("csv").build()
    assert descriptor.get_options() == {
        "connector": "kafka",
        "value.format": "json",
        "value.json.ignore-parse-errors": "true",
        "format": "csv",
    }
    with pytest.raises(ValidationError, match=r"suffixed with '\.format'"):
        TableDescriptor.for_connector("kafka").format(json, ConfigOptions.key("x").string_type().no_default_value())


def test_a_table_of_a_descriptor_is_created_once(tables: TableEnvironment) -> None:
    descriptor = TableDescriptor.for_connector("datagen").schema(SCHEMA).option("number-of-rows", "5").build()
    tables.create_temporary_table("temporary", descriptor)
    tables.create_table("lasting", descriptor)
    assert tables.from_path("temporary").get_resolved_schema().column_names == ("f0",)
    assert tables.list_tables() == ["lasting", "temporary"]
    tables.create_temporary_table("temporary", descriptor, True)
    with pytest.raises(ValidationError, match="already exists"):
        tables.create_temporary_table("temporary", descriptor)
    assert tables.drop_table("lasting")
    assert not tables.drop_table("lasting")


def test_a_descriptor_needs_no_name_and_a_sink_no_schema(tables: TableEnvironment) -> None:
    source = tables.from_descriptor(TableDescriptor.for_connector("datagen").schema(SCHEMA).build())
    assert "*anonymous_datagen$" in source.explain()
    sink = TableDescriptor.for_connector("blackhole").build()
    pipeline = source.select(col("f0").char_length.alias("n")).insert_into(sink)
    assert pipeline.get_sink_identifier() is None
    assert "fields=[n]" in pipeline.explain()
    assert "fields=[n]" in tables.create_statement_set().add(pipeline).explain()
    with pytest.raises(ValidationError, match="Schema missing in TableDescriptor"):
        tables.from_descriptor(sink)


def test_sql_can_name_a_table_object(tables: TableEnvironment) -> None:
    source = tables.from_descriptor(TableDescriptor.for_connector("datagen").schema(SCHEMA).build())
    assert str(source) == str(source)
    assert tables.sql_query(f"SELECT UPPER(f0) AS u FROM {source}").get_resolved_schema().column_names == ("u",)


def test_attached_inserts_are_part_of_the_program(tables: TableEnvironment) -> None:
    source = tables.from_descriptor(TableDescriptor.for_connector("datagen").schema(SCHEMA).build())
    statements = tables.create_statement_set()
    statements.add_insert(TableDescriptor.for_connector("blackhole").build(), source).attach_as_datastream()
    assert "anonymous_blackhole" in tables.execution_environment.get_execution_plan()
    with pytest.raises(ValidationError, match="No operators defined"):
        statements.execute()
