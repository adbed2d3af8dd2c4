"""Where checkpoints are written to and read from.

`file_system` is the interface, `local_file_system` and `arrow_file_system` are behind it, `file_systems` chooses by the
scheme of a path; `streams` writes state and `reader` reads it; `checkpoint_storage` knows the layout of directories.
"""

from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.checkpoint.storage.reader import StateFileReader
from flinkpy.checkpoint.storage.streams import CheckpointStreamFactory

__all__ = ["CheckpointStreamFactory", "FileSystems", "StateFileReader"]
