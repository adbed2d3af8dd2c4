"""The pages of the dashboard that tell what happens inside a job and inside the processes of the cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from browser import Dashboard
from clusters import RunningCluster
from job_support import FIXED_DELAY, environment, wait_until

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.functions import MapFunction


class FailsOnce(MapFunction):
    """Raises an error at the first record, and not after the restart."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def map(self, value: int) -> int:
        if not self._path.exists():
            self._path.touch()
            raise ValueError(f"cannot parse <{value}>")
        return value


class Slow(MapFunction):
    def map(self, value: int) -> int:
        time.sleep(0.01)
        return value


def start_job(cluster: RunningCluster, directory: Path) -> str:
    """Starts a job that has failed once, takes checkpoints, has a slow vertex, and drops all its records."""
    env = environment(
        cluster,
        2,
        **FIXED_DELAY,
        **{
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
            "classloader.resolve-order": "parent-first",
            "pipeline.global-job-parameters": "color:blue",
        },
    )
    source = DataGeneratorSource(int, None, RateLimiterStrategy.per_second(150))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    parsed = numbers.map(FailsOnce(str(directory / "failed")), output_type=Types.LONG()).name("parse")
    slow = parsed.key_by(lambda value: 0).map(Slow(), output_type=Types.LONG()).name("slow")
    slow.filter(lambda value: False).name("drop").print()
    return str(env.execute_async("watched <job>").get_job_id())


def test_the_pages_of_a_job_show_what_happens_in_it(dashboard: Dashboard, tmp_path: Path) -> None:
    job_id = start_job(dashboard.cluster, tmp_path)
    dashboard.log_in()
    dashboard.open(f"/jobs/{job_id}")
    dashboard.heading("watched <job>").wait_for()
    page = dashboard.page

    dashboard.see("drop has got")
    dashboard.screenshot("job_diagnosis")

    tab(page, "Exceptions")
    dashboard.see("ValueError: cannot parse <")
    assert "in map" in page.locator(".failure pre").first.inner_text()
    dashboard.screenshot("job_exceptions")

    tab(page, "Checkpoints")
    wait_until(lambda: completed_checkpoints(dashboard.cluster, job_id) >= 3, "checkpoints complete")
    dashboard.see("was the last to acknowledge")
    page.get_by_role("table", name="Subtasks of the checkpoint").get_by_text("0", exact=True).first.wait_for()
    dashboard.screenshot("job_checkpoints")

    tab(page, "Timeline")
    page.get_by_role("img", name="running").nth(3).wait_for()
    dashboard.screenshot("job_timeline")

    tab(page, "Configuration")
    dashboard.see("blue")
    options = page.get_by_role("table", name="Options")
    page.get_by_role("button", name="ignored").click()
    options.get_by_text("classloader.resolve-order").wait_for()
    assert options.get_by_text("execution.checkpointing.interval").count() == 0
    dashboard.screenshot("job_configuration")
    dashboard.cluster.client.cancel_job(job_id)


def tab(page: Any, name: str) -> None:
    page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name=name).click()


def completed_checkpoints(cluster: RunningCluster, job_id: str) -> int:
    return int(cluster.client.request_checkpoint_statistics(job_id).num_completed)
