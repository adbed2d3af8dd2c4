"""The pages of the dashboard that tell what happens inside a job and inside the processes of the cluster."""

from __future__ import annotations

import re
import time
import zipfile
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

    tab(page, "Logs")
    records = page.get_by_role("log", name="Records")
    records.get_by_text("cannot parse <").first.wait_for()
    dashboard.screenshot("job_logs")
    page.get_by_label("Search the records").fill("nothing that any record has")
    dashboard.see("No record matches")

    tab(page, "JobMaster")
    page.get_by_role("img", name="Memory over time").locator("canvas").wait_for()
    page.get_by_label("Filter Metrics").fill("numberOfCompletedCheckpoints")
    page.get_by_role("table", name="Metrics").get_by_text("numberOfCompletedCheckpoints").wait_for()
    page.get_by_text("MainThread").first.wait_for()
    dashboard.screenshot("job_jobmaster")

    tab(page, "Timeline")
    page.get_by_role("img", name="running").nth(3).wait_for()
    # The former attempt of the task that failed, before the current one.
    page.get_by_role("img", name=re.compile("running .*created .*running .*failed at")).first.wait_for()
    dashboard.screenshot("job_timeline")

    tab(page, "Configuration")
    dashboard.see("blue")
    options = page.get_by_role("table", name="Options")
    page.get_by_role("button", name="ignored").click()
    options.get_by_text("classloader.resolve-order").wait_for()
    assert options.get_by_text("execution.checkpointing.interval").count() == 0
    dashboard.screenshot("job_configuration")

    take_a_savepoint_and_stop(dashboard, tmp_path)
    wait_until(lambda: dashboard.cluster.client.request_job_status(job_id).is_terminal, "the job has stopped")


def take_a_savepoint_and_stop(dashboard: Dashboard, directory: Path) -> None:
    page = dashboard.page
    page.get_by_role("button", name="Savepoint").click()
    page.get_by_label("Directory").fill((directory / "savepoints").as_uri())
    page.get_by_role("button", name="Take a savepoint").click()
    dashboard.see("The savepoint is complete.")
    dashboard.screenshot("job_savepoint")
    assert len(list((directory / "savepoints").iterdir())) == 1
    page.get_by_role("button", name="Close this dialog").click()

    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Directory").fill((directory / "stopped").as_uri())
    page.get_by_role("button", name="Stop the job").click()
    dashboard.see("The job has stopped with a savepoint.")
    assert len(list((directory / "stopped").iterdir())) == 1
    page.get_by_role("button", name="Close this dialog").click()
    page.get_by_role("button", name="Cancel").wait_for(state="detached")


PROGRAM = """
import sys
from flinkpy.datastream import StreamExecutionEnvironment

if "--fail" in sys.argv:
    raise ValueError("no input given")
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([int(text) for text in sys.argv[1:]]).map(lambda number: number * 2).print()
env.execute("submitted <job>")
"""


def test_processes_are_shown_and_programs_submitted(dashboard: Dashboard, tmp_path: Path) -> None:
    dashboard.log_in()
    page = dashboard.page
    page.get_by_role("link", name="TaskExecutors").click()
    page.get_by_role("table", name="TaskExecutors").get_by_role("link").first.click()
    dashboard.see("Memory of the process")
    dashboard.screenshot("taskexecutor")
    part(page, "Threads")
    dashboard.see("MainThread")
    part(page, "Metrics")
    page.get_by_label("Filter Metrics").fill("Heap.Used")
    dashboard.see("Status.JVM.Memory.Heap.Used")
    for plot in ("CPU", "Memory", "Threads and open files"):
        page.get_by_role("img", name=f"{plot} over time").locator("canvas").wait_for()
    dashboard.screenshot("taskexecutor_metrics")
    part(page, "Logs")
    page.get_by_role("log", name="Log", exact=True).wait_for()
    page.get_by_label("Search the log").fill("nothing that any line has")
    dashboard.see("No line matches.")
    page.get_by_label("Search the log").fill("INFO")
    dashboard.screenshot("taskexecutor_logs")

    page.get_by_role("link", name="Dispatcher").click()
    dashboard.see("Options of the cluster")
    page.get_by_role("button", name="Use dark colours").click()
    dashboard.screenshot("dispatcher_dark")

    page.get_by_role("link", name="Submit", exact=True).click()
    program = tmp_path / "doubles.py"
    program.write_text(PROGRAM)
    page.locator("input[type=file]").set_input_files(program)
    page.get_by_label("Arguments").fill("--fail")
    page.get_by_role("button", name="Run", exact=True).click()
    dashboard.see("ValueError: no input given")
    dashboard.screenshot("submit_dark")
    page.get_by_label("Arguments").fill("1 2 3")
    page.get_by_role("button", name="Run", exact=True).click()
    dashboard.heading("submitted <job>").wait_for()
    page.get_by_text("FINISHED").first.wait_for()
    for name, files in archives().items():
        file = tmp_path / name
        with zipfile.ZipFile(file, "w") as archive:
            for path, content in files.items():
                archive.writestr(path, content)
        dashboard.open("/submit")
        page.locator("input[type=file]").set_input_files(file)
        page.get_by_role("button", name=f"Run {name}").wait_for()
        page.get_by_label("Arguments").fill("4 5")
        page.get_by_role("button", name="Run", exact=True).click()
        dashboard.heading(f"job of {name}").wait_for()
        page.get_by_text("FINISHED").first.wait_for()


def archives() -> dict[str, dict[str, str]]:
    """Returns the files of a zip file with a `__main__`, and of a wheel with a console script."""

    def named(name: str) -> str:
        return PROGRAM.replace("submitted <job>", f"job of {name}")

    body = "".join(f"    {line}\n" for line in named("doubles-1-py3-none-any.whl").splitlines())
    return {
        "doubles.pyz": {"__main__.py": named("doubles.pyz")},
        "doubles-1-py3-none-any.whl": {
            "doubles_in_a_wheel.py": f"def run():\n{body}",
            "doubles-1.dist-info/entry_points.txt": "[console_scripts]\ndoubles = doubles_in_a_wheel:run\n",
        },
    }


def test_a_reader_is_offered_no_actions(dashboard: Dashboard) -> None:
    dashboard.log_in("--read-only")
    navigation = dashboard.page.get_by_role("navigation", name="Main")
    navigation.get_by_role("link", name="Dispatcher").wait_for()
    assert navigation.get_by_role("link", name="Submit").count() == 0
    dashboard.open("/submit")
    dashboard.see("Programs cannot be submitted here")


def part(page: Any, name: str) -> None:
    page.get_by_role("navigation", name="Parts of the TaskExecutor").get_by_role("link", name=name).click()


def tab(page: Any, name: str) -> None:
    page.get_by_role("navigation", name="Parts of the job").get_by_role("link", name=name).click()


def completed_checkpoints(cluster: RunningCluster, job_id: str) -> int:
    return int(cluster.client.request_checkpoint_statistics(job_id).num_completed)
