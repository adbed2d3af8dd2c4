"""State backends as objects. `env.configure(backend.to_configuration())` sets the backend of a job.

Source: pyflink.datastream.state_backend.
"""

from __future__ import annotations

from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.configuration.checkpointing_options import INCREMENTAL
from flinkpy.configuration.state_backend_options import STATE_BACKEND

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]

_DEFAULT_TRANSFER_THREADS = 4


class StateBackend:
    """The base of state backends, which hold keyed state while a job runs."""

    def __init__(self, j_state_backend: Any = None) -> None:
        if j_state_backend is not None:
            raise _no_java(type(self).__name__, j_state_backend)

    def to_configuration(self) -> Configuration:
        """Returns the options that select this backend, for `env.configure`. Beyond PyFlink."""
        raise NotImplementedError


class HashMapStateBackend(StateBackend):
    """Keeps state as Python objects in memory."""

    def __init__(self, j_hashmap_state_backend: Any = None) -> None:
        super().__init__(j_hashmap_state_backend)

    def __str__(self) -> str:
        return "HashMapStateBackend"

    def to_configuration(self) -> Configuration:
        return Configuration().set_string(STATE_BACKEND.key, "hashmap")


class PredefinedOptions(Enum):
    """Settings of RocksDB for different kinds of hardware."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on the local disk of each TaskExecutor. State can be as large as that disk.

    Args:
        enable_incremental_checkpointing: True to upload only new files with each checkpoint. None leaves it to the
            configuration.
    """

    def __init__(
        self, enable_incremental_checkpointing: bool | None = None, j_embedded_rocks_db_state_backend: Any = None
    ) -> None:
        super().__init__(j_embedded_rocks_db_state_backend)
        self._is_incremental = enable_incremental_checkpointing
        self._paths: list[str] = []
        self._predefined_options: PredefinedOptions | None = None
        self._transfer_threads: int | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets the local directories of the database files."""
        if not paths or any(not isinstance(path, str) or not path for path in paths):
            raise ValueError("Invalid empty path list: give one or more directories")
        # As in Flink, only the path of a URI counts.
        self._paths = [urlsplit(path).path.rstrip("/") or "/" for path in paths]

    def get_db_storage_paths(self) -> list[str]:
        """Returns the local directories of the database files; empty for the TaskExecutors' working directories."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        return bool(self._is_incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"options must be one of PredefinedOptions, not {options!r}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        return self._predefined_options or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> None:
        """Raises UnsupportedOperationError: an options factory is a Java class. Use `state.backend.rocksdb.*`."""
        raise UnsupportedOperationError(
            f"set_options({options_factory_class_name!r}): an options factory is a Java class, and flinkpy has no JVM; "
            "set the options state.backend.rocksdb.* instead"
        )

    def get_options(self) -> str | None:
        return None

    def get_number_of_transfer_threads(self) -> int:
        return self._transfer_threads or _DEFAULT_TRANSFER_THREADS

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        if number_of_transfering_threads < 1:
            raise ValueError(
                "The number of threads used to transfer files in EmbeddedRocksDBStateBackend should be greater than "
                "zero."
            )
        self._transfer_threads = number_of_transfering_threads

    def __str__(self) -> str:
        directories = f"[{', '.join(self._paths)}]" if self._paths else "null"
        incremental = "UNDEFINED" if self._is_incremental is None else str(self._is_incremental).upper()
        return (
            f"EmbeddedRocksDBStateBackend{{, localRocksDbDirectories={directories}, "
            f"enableIncrementalCheckpointing={incremental}, numberOfTransferThreads={self._transfer_threads or -1}}}"
        )

    def to_configuration(self) -> Configuration:
        configuration = Configuration().set_string(STATE_BACKEND.key, "rocksdb")
        if self._is_incremental is not None:
            configuration.set_boolean(INCREMENTAL.key, self._is_incremental)
        if self._paths:
            configuration.set_string("state.backend.rocksdb.localdir", ",".join(self._paths))
        if self._predefined_options is not None:
            configuration.set_string("state.backend.rocksdb.predefined-options", self._predefined_options.name)
        if self._transfer_threads is not None:
            configuration.set_integer("state.backend.rocksdb.checkpoint.transfer.thread.num", self._transfer_threads)
        return configuration


class CustomStateBackend(StateBackend):
    """PyFlink's wrapper of a Java object. It always raises, because flinkpy has no JVM."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        raise _no_java("CustomStateBackend", j_custom_state_backend)


def _no_java(name: str, backend: Any) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{name}({backend!r}): a custom state backend is a Java object, and flinkpy has no JVM; set state.backend.type "
        "to `hashmap` or `rocksdb`"
    )
