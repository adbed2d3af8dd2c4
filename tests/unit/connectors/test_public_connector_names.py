from __future__ import annotations

import inspect

import pytest

from flinkpy.connector_api.sink import SinkBase
from flinkpy.connector_api.source import SourceBase
from flinkpy.datastream.connectors import DeliveryGuarantee, Sink, Source, base, file_system, number_seq
from flinkpy.datastream.formats import csv, parquet

#: PyFlink 2.3.0: module, class, methods with the parameters that a program may name.
PYFLINK = [
    (file_system.FileSource, "for_record_stream_format", ["stream_format", "paths"]),
    (file_system.FileSource, "for_bulk_file_format", ["bulk_format", "paths"]),
    (file_system.FileSourceBuilder, "monitor_continuously", ["discovery_interval"]),
    (file_system.FileSourceBuilder, "process_static_file_set", []),
    (file_system.FileSourceBuilder, "set_file_enumerator", ["file_enumerator"]),
    (file_system.FileSourceBuilder, "set_split_assigner", ["split_assigner"]),
    (file_system.FileSourceBuilder, "build", []),
    (file_system.FileEnumeratorProvider, "default_splittable_file_enumerator", []),
    (file_system.FileEnumeratorProvider, "default_non_splittable_file_enumerator", []),
    (file_system.FileSplitAssignerProvider, "locality_aware_split_assigner", []),
    (file_system.StreamFormat, "text_line_format", ["charset_name"]),
    (file_system.BucketAssigner, "base_path_bucket_assigner", []),
    (file_system.BucketAssigner, "date_time_bucket_assigner", ["format_str", "timezone_id"]),
    (file_system.RollingPolicy, "default_rolling_policy", ["part_size", "rollover_interval", "inactivity_interval"]),
    (file_system.RollingPolicy, "on_checkpoint_rolling_policy", []),
    (file_system.OutputFileConfig, "__init__", ["part_prefix", "part_suffix"]),
    (file_system.OutputFileConfig.OutputFileConfigBuilder, "with_part_prefix", ["prefix"]),
    (file_system.OutputFileConfig.OutputFileConfigBuilder, "with_part_suffix", ["suffix"]),
    (file_system.FileCompactStrategy, "builder", []),
    (file_system.FileCompactor, "concat_file_compactor", ["file_delimiter"]),
    (file_system.FileCompactor, "identical_file_compactor", []),
    (file_system.FileSink, "for_row_format", ["base_path", "encoder"]),
    (file_system.FileSink, "for_bulk_format", ["base_path", "writer_factory"]),
    (file_system.FileSink, "get_transformer", []),
    (file_system.FileSink.BaseBuilder, "with_bucket_check_interval", ["interval"]),
    (file_system.FileSink.BaseBuilder, "with_bucket_assigner", ["bucket_assigner"]),
    (file_system.FileSink.BaseBuilder, "with_output_file_config", ["output_file_config"]),
    (file_system.FileSink.BaseBuilder, "enable_compact", ["strategy", "compactor"]),
    (file_system.FileSink.BaseBuilder, "disable_compact", []),
    (file_system.FileSink.RowFormatBuilder, "with_rolling_policy", ["rolling_policy"]),
    (file_system.FileSink.BulkFormatBuilder, "with_rolling_policy", ["rolling_policy"]),
    (file_system.StreamingFileSink, "for_row_format", ["base_path", "encoder"]),
    (file_system.StreamingFileSink, "for_bulk_format", ["base_path", "writer_factory"]),
    (number_seq.NumberSequenceSource, "__init__", ["start", "end"]),
    (csv.CsvSchema, "builder", []),
    (csv.CsvSchema, "size", []),
    (csv.CsvReaderFormat, "for_schema", ["schema"]),
    (csv.CsvBulkWriters, "for_schema", ["schema"]),
    (csv.CsvSchemaBuilder, "build", []),
    (csv.CsvSchemaBuilder, "add_array_column", ["name", "separator", "element_type"]),
    (csv.CsvSchemaBuilder, "add_boolean_column", ["name"]),
    (csv.CsvSchemaBuilder, "add_number_column", ["name", "number_type"]),
    (csv.CsvSchemaBuilder, "add_string_column", ["name"]),
    (csv.CsvSchemaBuilder, "add_columns_from", ["schema"]),
    (csv.CsvSchemaBuilder, "clear_columns", []),
    (csv.CsvSchemaBuilder, "set_allow_comments", ["allow"]),
    (csv.CsvSchemaBuilder, "set_any_property_name", ["name"]),
    (csv.CsvSchemaBuilder, "disable_array_element_separator", []),
    (csv.CsvSchemaBuilder, "remove_array_element_separator", ["index"]),
    (csv.CsvSchemaBuilder, "set_array_element_separator", ["separator"]),
    (csv.CsvSchemaBuilder, "set_column_separator", ["char"]),
    (csv.CsvSchemaBuilder, "disable_escape_char", []),
    (csv.CsvSchemaBuilder, "set_escape_char", ["char"]),
    (csv.CsvSchemaBuilder, "set_line_separator", ["separator"]),
    (csv.CsvSchemaBuilder, "set_null_value", ["null_value"]),
    (csv.CsvSchemaBuilder, "disable_quote_char", []),
    (csv.CsvSchemaBuilder, "set_quote_char", ["char"]),
    (csv.CsvSchemaBuilder, "set_skip_first_data_row", ["skip"]),
    (csv.CsvSchemaBuilder, "set_strict_headers", ["strict"]),
    (csv.CsvSchemaBuilder, "set_use_header", ["use"]),
    (csv.CsvSchemaBuilder, "size", []),
    (
        parquet.ParquetColumnarRowInputFormat,
        "__init__",
        ["row_type", "hadoop_config", "batch_size", "is_utc_timestamp", "is_case_sensitive"],
    ),
    (parquet.ParquetBulkWriters, "for_row_type", ["row_type", "hadoop_config", "utc_timestamp"]),
    (parquet.AvroParquetReaders, "for_generic_record", ["schema"]),
    (parquet.AvroParquetWriters, "for_generic_record", ["schema"]),
]


@pytest.mark.parametrize(("owner", "method", "parameters"), PYFLINK)
def test_methods_have_pyflinks_parameters(owner, method, parameters):
    found = [name for name in inspect.signature(getattr(owner, method)).parameters if name != "self"]
    assert found == parameters


@pytest.mark.parametrize("module", [base, csv, file_system, number_seq, parquet])
def test_every_public_name_exists(module):
    assert all(hasattr(module, name) for name in module.__all__)


def test_sources_and_sinks_are_the_contracts_themselves():
    assert Source is SourceBase
    assert Sink is SinkBase
    assert [guarantee.name for guarantee in DeliveryGuarantee] == ["EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"]


def test_a_sink_may_ask_for_its_stream_to_be_changed_first():
    class Doubling(base.StreamTransformer):
        def apply(self, ds):
            return ds * 2

    class MySink(base.SupportsPreprocessing):
        def get_transformer(self):
            return Doubling()

    assert MySink().get_transformer().apply(2) == 4
