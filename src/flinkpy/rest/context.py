"""RestContext: what all handlers share."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkpy.common.clock import Clock
from flinkpy.common.configuration import Configuration
from flinkpy.rest.access import RestAccess
from flinkpy.rest.applications import Applications
from flinkpy.rest.asynchronous_operations import AsynchronousOperations
from flinkpy.rest.cluster_gateways import ClusterGateways
from flinkpy.rest.ended_jobs import EndedJobs
from flinkpy.rest.flame_graphs import FlameGraphs
from flinkpy.rest.inquiries import Inquiries
from flinkpy.rest.live_table import LiveTables
from flinkpy.rest.options import RestOptions
from flinkpy.rest.programs import Programs


@dataclass(frozen=True, slots=True)
class RestContext:
    """The objects that all handlers share.

    Attributes:
        configuration: the configuration of the cluster, with its secrets.
        operations: the operations that were triggered and run on, e.g. savepoints.
        inquiries: the last answers of the services.
        ended_jobs: the lines of ended jobs in the overview.
        flame_graphs: the last samples of the flame graphs that are looked at.
        live_tables: what dashboards have been told of jobs.
        programs: the uploaded programs.
        applications: the applications that were started with them.
    """

    cluster: ClusterGateways
    options: RestOptions
    configuration: Configuration
    access: RestAccess
    operations: AsynchronousOperations
    programs: Programs
    applications: Applications
    clock: Clock
    inquiries: Inquiries = field(default_factory=Inquiries)
    ended_jobs: EndedJobs = field(default_factory=EndedJobs)
    flame_graphs: FlameGraphs = field(default_factory=FlameGraphs)
    live_tables: LiveTables = field(default_factory=LiveTables)
