"""Options of the BlobServer in the Dispatcher. Source: org.apache.flink.configuration.BlobServerOptions."""

from __future__ import annotations

from flinkpy.configuration.options import int_option, memory_option, string_option

STORAGE_DIRECTORY = string_option(
    "blob.storage.directory", None, "Directory for stored blobs. Default: a directory inside the working directory."
)
CLEANUP_INTERVAL_S = int_option(
    "blob.service.cleanup.interval", 3600, "Seconds that a blob is kept after the last job that uses it.", minimum=0
)
MAX_BLOB_SIZE = memory_option(
    "flinkpy.blob.max-size", "2 gb", "Maximum size of a blob that a client may upload.", minimum_bytes=1
)
