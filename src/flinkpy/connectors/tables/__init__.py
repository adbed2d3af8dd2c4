"""Tables of Apache Iceberg and Delta Lake as bounded sources, and as sinks that commit exactly once.

`TableSource` and `TableSink` are for programs. `table_format` is what they need of a format; `iceberg` and `delta`
implement it with pyiceberg and deltalake.
"""
