"""Takes the pictures of the dashboard that the README shows, from a cluster with a few jobs: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import VIEWPORT, chromium_program
from clusters import ROOT, RunningCluster
from job_support import environment, wait_until
from playwright.sync_api import sync_playwright

from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Duration, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

IMAGES = ROOT / "docs" / "images"
#: A file of the repository that is no text stays small.
MAX_BYTES = 150_000
#: How long the jobs run before the pictures: rates are over the last minute.
WARM_UP_S = 45


class ArrivalTime(TimestampAssigner):
    """Numbers carry no time, so records have the time of their arrival, with some disorder."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return int(time.time() * 1000) - value % 50 * 20


def score(value: int) -> int:
    """Takes a millisecond, as a small model does."""
    until = time.perf_counter() + 0.001
    while time.perf_counter() < until:
        pass
    return value


def start_jobs(cluster: RunningCluster, directory: Path) -> str:
    """Starts a job that is back-pressured, and two that end. Returns the id of the first."""
    checkpoints = {
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
    }
    env = environment(cluster, 2, **checkpoints)
    orders = numbers(env, "orders", 4_000).map(lambda order: order, output_type=Types.LONG()).name("parse")
    payments = numbers(env, "payments", 1_000)
    scored = orders.union(payments).key_by(lambda one: one % 101).map(score, output_type=Types.LONG())
    latest = scored.name("score fraud risk").key_by(lambda one: one % 31).reduce(max).name("latest per customer")
    latest.print().name("alerts")
    job_id = str(env.execute_async("fraud detection").get_job_id())
    for name, inputs in (("daily report", [1, 2, 4]), ("nightly import", [1, 2, 0])):
        env = environment(cluster, 1)
        env.from_collection(inputs).map(lambda value: 8 // value).name("divide").print()
        ended = env.execute_async(name).get_job_id()
        wait_until(lambda job=str(ended): cluster.client.request_job_status(job).is_terminal, f"{name} has ended")
    return job_id


def numbers(env: StreamExecutionEnvironment, name: str, per_second: int) -> Any:
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    source = DataGeneratorSource(int, None, RateLimiterStrategy.per_second(per_second))
    return env.from_source(source, watermarks.with_timestamp_assigner(ArrivalTime()), name, Types.LONG())


def take(page: Any, name: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    sys.stdout.write(f"{path.relative_to(ROOT)}: {size} bytes\n")
    if size > MAX_BYTES:
        raise SystemExit(f"{path} is larger than {MAX_BYTES} bytes")


def take_pictures(cluster: RunningCluster, job_id: str) -> None:
    def link() -> str:
        return cluster.flinkpy("dashboard", "--no-browser").stdout.strip()

    pictures: list[tuple[str, str, Callable[[Any], None]]] = [
        ("dashboard-job", "light", lambda page: _open_job(page, job_id)),
        (
            "dashboard-overview",
            "dark",
            lambda page: page.get_by_role("link", name="nightly import has failed").wait_for(),
        ),
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_program(), args=["--no-sandbox", "--disable-gpu"])
        for name, colours, prepare in pictures:
            # Without animations, which a picture would stop halfway.
            page = browser.new_page(viewport=VIEWPORT, color_scheme=colours, reduced_motion="reduce")
            page.goto(link())
            page.get_by_role("heading", level=1, name="Overview").wait_for()
            prepare(page)
            take(page, name)
        browser.close()


def _open_job(page: Any, job_id: str) -> None:
    page.evaluate("path => { location.hash = path }", f"/jobs/{job_id}")
    node = page.get_by_role("button", name="score fraud risk")
    wait_until(lambda: " %" in node.inner_text(), "the load is shown")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        options = LocalClusterOptions(
            num_task_executors=2, properties={"taskmanager.numberOfTaskSlots": "2"}, log_dir=Path(directory) / "logs"
        )
        local = LocalCluster(options)
        local.start()
        cluster = RunningCluster(local, Path(directory) / "logs")
        try:
            job_id = start_jobs(cluster, Path(directory))
            time.sleep(WARM_UP_S)
            take_pictures(cluster, job_id)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
