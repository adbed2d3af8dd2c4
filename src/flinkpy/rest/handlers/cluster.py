"""Operations of the cluster itself."""

from __future__ import annotations

import time

from flinkpy import __version__
from flinkpy._proto import dispatcher_pb2
from flinkpy.rest.messages.cluster import ClusterOverviewWithVersion, DashboardConfiguration, DashboardFeatures
from flinkpy.rest.operation import RestCall, operation
from flinkpy.security import Role

#: Flink shows the commit of its build. A release of flinkpy is named by its version alone.
NO_COMMIT = "flinkpy"
#: How old the overview may be. The Dispatcher asks the ResourceManager for it, however many people look at it.
MAX_OVERVIEW_AGE_MS = 1_000


@operation("GET", "/config", "Returns the configuration of the WebUI.", response=DashboardConfiguration)
async def dashboard_configuration(call: RestCall) -> DashboardConfiguration:
    options = call.context.options
    may_change = call.role >= Role.SUBMIT
    now = time.localtime(call.context.clock.now_ms() / 1000)
    return DashboardConfiguration(
        refresh_interval=options.refresh_interval_ms,
        timezone_name=now.tm_zone,
        timezone_offset=now.tm_gmtoff * 1000,
        flink_version=__version__,
        flink_revision=NO_COMMIT,
        features=DashboardFeatures(
            web_submit=options.may_submit and may_change,
            web_cancel=options.may_cancel and may_change,
            web_rescale=options.may_rescale and may_change,
            web_history=False,
        ),
    )


@operation("GET", "/overview", "Returns an overview over the Flink cluster.", response=ClusterOverviewWithVersion)
async def cluster_overview(call: RestCall) -> ClusterOverviewWithVersion:
    context = call.context
    found, call.age_ms = await context.inquiries.ask(
        ("request_cluster_overview",),
        lambda: call.dispatcher.request_cluster_overview(dispatcher_pb2.ClusterOverviewRequest()),
        context.clock.monotonic_ms(),
        min(MAX_OVERVIEW_AGE_MS, context.options.max_job_age_ms),
    )
    return ClusterOverviewWithVersion(
        taskmanagers=found.num_task_managers,
        slots_total=found.num_slots_total,
        slots_available=found.num_slots_available,
        jobs_running=found.num_jobs_running,
        jobs_finished=found.num_jobs_finished,
        jobs_cancelled=found.num_jobs_cancelled,
        jobs_failed=found.num_jobs_failed,
        flink_version=found.version,
        flink_commit=NO_COMMIT,
    )


@operation("DELETE", "/cluster", "Shuts down the cluster")
async def shut_down_cluster(call: RestCall) -> None:
    await call.dispatcher.shut_down_cluster(dispatcher_pb2.ShutDownClusterRequest())
