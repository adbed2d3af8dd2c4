"""JobMasterEnvironment: the dependencies that the process passes to its JobMaster."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from flinkpy.common.addresses import LOOPBACK
from flinkpy.common.python_environment import environments_root
from flinkpy.common.user_files import FetchBlob
from flinkpy.highavailability.checkpoint_stores import CheckpointRecovery
from flinkpy.highavailability.leader_election import LeaderRetrieval
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.rpc.peer_connection import Peers

if TYPE_CHECKING:
    from flinkpy.traces.reporting import Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMasterEnvironment:
    """The services, addresses and directories that a JobMaster uses."""

    peers: Peers
    resource_id: str
    #: The address of the server of this JobMaster.
    address: str
    dispatcher: Any
    dispatcher_address: str
    fetch_blob: FetchBlob
    #: For the Python files of the job. The process removes it at the end.
    working_directory: Path
    random: Random
    graph_id: str
    #: For files that the next JobMaster needs. None: a directory in `working_directory`, without recovery.
    recovery_directory: Path | None = None
    #: The store of checkpoint pointers; None: files in `recovery_directory`.
    checkpoint_recovery: CheckpointRecovery | None = None
    #: True if another JobMaster has led the job before.
    is_recovery: bool = False
    #: True if the job continues under another Dispatcher when its Dispatcher ends.
    outlives_dispatcher: bool = False
    #: Finds the leading ResourceManager; None: its address is fixed.
    resource_manager: LeaderRetrieval | None = None
    #: The directory in which this host keeps installed requirements of jobs.
    python_environments: Path = field(default_factory=environments_root)
    #: The registry of this process; None: the metrics of the job are not reported.
    metrics: MetricRegistry | None = None
    #: The reporters of spans and events of this process, if there are any.
    tracer: Tracer | None = None
    #: The host of this process, for the scopes of metrics.
    host: str = LOOPBACK
