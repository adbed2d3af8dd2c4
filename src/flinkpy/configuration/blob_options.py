"""Options of the BlobServer in the Dispatcher. Source: org.apache.flink.configuration.BlobServerOptions."""

from __future__ import annotations

from flinkpy.configuration.options import int_option, memory_option, string_option

STORAGE_DIRECTORY = string_option(
    "blob.storage.directory", None, "Directory of stored blobs; inside the working directory where unset."
)
CLEANUP_INTERVAL_S = int_option(
    "blob.service.cleanup.interval", 3600, "Seconds for which a blob that no job uses is kept.", minimum=0
)
MAX_BLOB_SIZE = memory_option(
    "flinkpy.blob.max-size", "2 gb", "Largest blob that a client may upload.", minimum_bytes=1
)
