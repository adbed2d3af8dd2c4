"""PyFlink's `pyflink.datastream.formats.orc`.

Differs: a row type is `Types.ROW_NAMED(names, types)`, a `pyarrow.Schema`, or a dict from name to type. Beyond PyFlink,
`FileSource.for_orc` reads ORC files.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.formats.orc_format import OrcBulkWriterFactory, orc_settings
from flinkpy.formats.row_types import row_type_of

__all__ = ["OrcBulkWriters"]


class OrcBulkWriters:
    """Writes ORC files with a FileSink."""

    @staticmethod
    def for_row_type(row_type: Any, writer_properties: Any = None, hadoop_config: Any = None) -> OrcBulkWriterFactory:
        """Returns a writer factory.

        Args:
            row_type: the type of the rows. Beyond PyFlink, None takes the columns of the stream's type.
            writer_properties: a Configuration or a dict with `orc.compress`, `orc.stripe.size`, `orc.compress.size`,
                `orc.row.index.stride`.
            hadoop_config: must be empty, because there is no Hadoop here.
        """
        if hadoop_config is not None and _entries(hadoop_config):
            raise UnsupportedOperationError("hadoop_config: flinkpy writes ORC without Hadoop")
        settings = orc_settings(_entries(writer_properties))
        return OrcBulkWriterFactory(None if row_type is None else row_type_of(row_type), settings)


def _entries(configuration: Any) -> dict[str, str]:
    if configuration is None:
        return {}
    return dict(configuration) if isinstance(configuration, dict) else dict(configuration.to_dict())
