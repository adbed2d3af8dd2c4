"""JobMasterEnvironment: what a process hands to its JobMaster."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from flinkpy.common.python_environment import environments_root
from flinkpy.common.user_files import FetchBlob
from flinkpy.highavailability.checkpoint_recovery import CheckpointRecovery
from flinkpy.highavailability.leader_election import LeaderRetrieval
from flinkpy.rpc.peers import Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMasterEnvironment:
    """Everything a JobMaster is given but its job."""

    peers: Peers
    resource_id: str
    #: Where this JobMaster's server is reached.
    address: str
    dispatcher: Any
    dispatcher_address: str
    fetch_blob: FetchBlob
    #: For the job's Python files; removed by whoever made it.
    working_directory: Path
    random: Random
    graph_id: str
    #: For what the job's next JobMaster must find; None: below `working_directory`, where none will look.
    recovery_directory: Path | None = None
    #: Where the job's checkpoints are noted; None: in `recovery_directory`.
    checkpoint_recovery: CheckpointRecovery | None = None
    #: Whether another JobMaster has led the job before.
    is_recovery: bool = False
    #: Whether another Dispatcher may go on with the job after the end of this one.
    outlives_dispatcher: bool = False
    #: Of the ResourceManager; None: it is where the JobMaster is told.
    resource_manager: LeaderRetrieval | None = None
    #: Where this host keeps the packages that jobs require.
    python_environments: Path = field(default_factory=environments_root)
