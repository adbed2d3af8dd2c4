"""PyFlink's `pyflink.datastream.connectors.file_system`."""

from flinkpy.connectors.file_compaction import FileCompactor, FileCompactStrategy
from flinkpy.connectors.file_sink import FileSink, StreamingFileSink
from flinkpy.connectors.file_sink_config import (
    BucketAssigner,
    BucketAssignerContext,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flinkpy.connectors.file_source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from flinkpy.formats.file_format import BulkFormat, StreamFormat

__all__ = [
    "BucketAssigner",
    "BucketAssignerContext",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
