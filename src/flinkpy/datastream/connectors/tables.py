"""Tables of Apache Iceberg and Delta Lake. Beyond PyFlink.

Iceberg needs `pip install 'flinkpy[iceberg]'`, Delta needs `pip install 'flinkpy[delta]'`.
"""

from flinkpy.connectors.tables.table_sink import TableSink, TableSinkBuilder
from flinkpy.connectors.tables.table_source import TableSource, TableSourceBuilder

__all__ = ["TableSink", "TableSinkBuilder", "TableSource", "TableSourceBuilder"]
