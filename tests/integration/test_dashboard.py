"""The dashboard in a real browser, in front of a cluster of real processes: overview, job, vertex, lost cluster."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

from browser import Dashboard
from clusters import RunningCluster
from job_support import environment, wait_until
from test_rest_jobs import Failing, NumberIsTime

from flinkpy.common import Duration, Types, WatermarkStrategy
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.functions import MapFunction, RuntimeContext

SLOW_NODE = "slow aggregation"


class SlowCounting(MapFunction):
    """Takes longer for a record than its source does."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.records = runtime_context.get_int_counter("records")

    def map(self, value: int) -> int:
        self.records.add(1)
        time.sleep(0.005)
        return value


def start_back_pressured_job(cluster: RunningCluster) -> str:
    """Starts a job of two vertices: a source, and what cannot keep up with it."""
    env = environment(cluster, 2)
    source = DataGeneratorSource(int, None, RateLimiterStrategy.per_second(2_000))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        NumberIsTime()
    )
    numbers = env.from_source(source, watermarks, "numbers", Types.LONG())
    slow = numbers.key_by(lambda number: number % 7).map(SlowCounting(), output_type=Types.LONG()).name(SLOW_NODE)
    slow.filter(lambda number: number < 0).print()
    return str(env.execute_async("busy <job>").get_job_id())


def test_a_stranger_is_told_how_to_log_in(dashboard: Dashboard) -> None:
    with dashboard.tolerating(r"^401 .*/v1/"):
        dashboard.page.goto(dashboard.url)
        dashboard.heading("You are not logged in").wait_for()
        dashboard.see("flinkpy dashboard")


def test_a_job_under_back_pressure_is_shown_from_the_overview_to_its_subtasks(dashboard: Dashboard) -> None:
    page = dashboard.page
    job_id = start_back_pressured_job(dashboard.cluster)
    dashboard.log_in()
    page.get_by_role("table", name="Running jobs").get_by_role("link", name="busy <job>").click()
    dashboard.heading("busy <job>").wait_for()

    # The graph: the source waits, and the vertex below it is the reason.
    source = page.get_by_role("button", name="numbers")
    wait_until(lambda: _percent(source, "back-pressured") > 50, "the back-pressure is shown")
    slow = page.get_by_role("button", name=SLOW_NODE)
    wait_until(lambda: _percent(slow, "busy") > 50, "the load is shown")
    dashboard.see("HASH")
    dashboard.screenshot("job-graph")
    slow.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name=re.compile(SLOW_NODE))
    drawer.get_by_text("Busy, mean and worst subtask").wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")

    slow.click()
    drawer.get_by_role("link", name="Subtasks and metrics").click()
    rows = page.get_by_role("table", name="Subtasks").get_by_role("row")
    rows.nth(2).wait_for()
    assert rows.count() == 3
    dashboard.see(re.compile("Lowest: subtask"))
    dashboard.screenshot("vertex-subtasks")

    tabs = page.get_by_role("navigation", name="Parts of the vertex")
    tabs.get_by_role("link", name="Metrics").click()
    page.get_by_role("img", name=re.compile("busyTimeMsPerSecond over time")).wait_for()
    page.get_by_label("Add a metric").fill("numBytesInPerSecond")
    page.get_by_role("button", name="Remove numBytesInPerSecond").wait_for()
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    dashboard.screenshot("vertex-metrics-dark")
    tabs.get_by_role("link", name="Accumulators").click()
    page.get_by_role("table", name="Accumulators", exact=True).get_by_text("records").wait_for()

    dashboard.open("/")
    page.get_by_role("region", name="Needs attention").get_by_role("link", name=re.compile("busy <job>")).wait_for()
    dashboard.screenshot("overview")
    dashboard.open(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    dashboard.see("busy <job> is being canceled")
    wait_until(lambda: dashboard.cluster.client.request_job_status(job_id).is_terminal, "the job is canceled")
    page.get_by_text("CANCELED").first.wait_for()


def _percent(node: Any, word: str) -> int:
    """Returns the percentage after a word in the text of a node; -1 while it is not known."""
    found = re.search(rf"{word}\s+(\d+) %", node.inner_text())
    return -1 if found is None else int(found[1])


def test_a_failed_job_needs_attention_and_shows_where_it_failed(dashboard: Dashboard) -> None:
    env = environment(dashboard.cluster, 1)
    env.from_collection([1, 2]).map(Failing()).name("divide").print()
    job_id = str(env.execute_async("broken").get_job_id())
    dashboard.log_in()
    attention = dashboard.page.get_by_role("region", name="Needs attention")
    attention.get_by_role("link", name="broken has failed").wait_for()
    dashboard.open(f"/jobs/{job_id}")
    node = dashboard.page.get_by_role("button", name="divide")
    node.get_by_text("failed").wait_for()
    dashboard.screenshot("job-failed")


def test_the_page_says_that_the_cluster_is_away_and_goes_on_when_it_is_back(dashboard: Dashboard) -> None:
    dispatcher = dashboard.cluster.service("dispatcher").popen
    dashboard.log_in()
    with dashboard.tolerating(r"^50[34] "):
        dispatcher.send_signal(signal.SIGSTOP)
        try:
            banner = dashboard.see(re.compile("The cluster has not answered since"))
            dashboard.screenshot("cluster-away")
        finally:
            dispatcher.send_signal(signal.SIGCONT)
        banner.wait_for(state="detached")
    dashboard.open("/jobs")
    dashboard.page.get_by_role("table", name="Jobs").wait_for()
