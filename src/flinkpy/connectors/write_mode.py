"""WriteMode: the effect of a sink on the records that its table or directory has."""

from __future__ import annotations

from enum import Enum


class WriteMode(Enum):
    """The effect of a commit on the records that the table or directory has."""

    APPEND = "append"
    #: Replaces all records.
    OVERWRITE = "overwrite"
    #: Replaces the partitions to which the job wrote. Replaces all records of a table without partitions.
    OVERWRITE_PARTITIONS = "overwrite partitions"
