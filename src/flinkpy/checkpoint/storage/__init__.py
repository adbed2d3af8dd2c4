"""The storage of checkpoints: file systems, streams of state, and the layout of directories.

`file_system` is the interface of file systems, `local_file_system` and `arrow_file_system` implement it, and
`file_systems` chooses one by the scheme of a path. `streams` writes state, and `reader` reads it. `checkpoint_storage`
defines the layout of the directories.
"""

from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.checkpoint.storage.reader import StateFileReader
from flinkpy.checkpoint.storage.streams import CheckpointStreamFactory

__all__ = ["CheckpointStreamFactory", "FileSystems", "StateFileReader"]
