"""`flinkpy run` in a terminal: live progress, and what Ctrl-C does to the job."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

from clusters import RunningCluster
from terminals import TerminalProcess

from flinkpy.common.states import JobState

#: Reads files slowly, then prints a result to standard output.
PROGRAM = """
    import sys, time
    from flinkpy.common import Types, WatermarkStrategy
    from flinkpy.datastream import StreamExecutionEnvironment
    from flinkpy.datastream.connectors.file_system import FileSource, StreamFormat
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1]).build()
    def slow(value):
        time.sleep(0.01)
        return value
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines").set_parallelism(1)
    lines.map(slow, output_type=Types.STRING()).filter(lambda value: False).print()
    env.execute("slow lines")
    print("the result")
"""


def run_in_terminal(
    cluster: RunningCluster, directory: Path, num_files: int, stdout: int | None = None
) -> TerminalProcess:
    program = directory / "job.py"
    program.write_text(textwrap.dedent(PROGRAM))
    files = directory / "in"
    files.mkdir()
    for number in range(num_files):
        (files / f"{number}.txt").write_text("line\n" * 40)
    return TerminalProcess(
        [sys.executable, "-m", "flinkpy.cli.main", "run", "-p", "1", str(program), str(files)],
        {"FLINKPY_DYNAMIC_PROPERTIES": cluster.dynamic_properties},
        stdout=stdout,
    )


def test_a_terminal_shows_live_progress_and_the_result_stays_on_stdout(
    shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    with open(tmp_path / "out", "wb") as output:
        process = run_in_terminal(shared_cluster, tmp_path, num_files=12, stdout=output.fileno())
    with process:
        process.read_until("Rows out")
        assert process.read_to_end() == 0, process.shown
    assert (tmp_path / "out").read_text() == "the result\n"
    assert re.search(r"\d+% done, \d+:\d\d left", process.shown), process.shown
    assert re.search(r"[1-9]\d* checkpoints?, last ", process.shown), process.shown
    assert re.search(r"[0-9a-f]{32} FINISHED\r\n$", process.shown), process.shown[-300:]


def test_ctrl_c_in_a_terminal_says_what_happens_to_the_job(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    with run_in_terminal(shared_cluster, tmp_path, num_files=2000) as process:
        process.read_until("Rows out")
        process.type("\x03")
        assert process.read_to_end() == 130, process.shown
    job_id = re.search(r"slow lines \(([0-9a-f]{32})\)", process.shown)
    assert job_id is not None
    assert "interrupted: canceling the job" in process.shown
    assert f"{job_id[1]} CANCELED" in process.shown
    assert "Traceback" not in process.shown
    assert shared_cluster.client.request_job_status(job_id[1]) is JobState.CANCELED


def test_top_shows_a_running_job_and_its_task_executors(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    with run_in_terminal(shared_cluster, tmp_path, num_files=2000) as job:
        job.read_until("Rows out")
        (job_id,) = set(re.findall(r"slow lines \(([0-9a-f]{32})\)", job.shown))
        command = [sys.executable, "-m", "flinkpy.cli.main", "top", "-i", "0.2"]
        with TerminalProcess(command, {"FLINKPY_DYNAMIC_PROPERTIES": shared_cluster.dynamic_properties}) as top:
            top.read_until(job_id[:8])
            top.type("q")
            assert top.read_to_end() == 0, top.shown
        found = json.loads(shared_cluster.flinkpy("top", "--json").stdout)
        (mine,) = [one for one in found["jobs"] if one["job_id"] == job_id]
        assert mine["vertices"][0]["busy_ratio"] > 0.5 and mine["vertices"][0]["records_in_per_s"] > 0
        used = [one for one in found["task_executors"] if one["num_slots_free"] < one["num_slots"]]
        assert used and all(one["cores"] > 0 and one["memory_bytes"] > 10_000_000 for one in used)
        job.type("\x03")
        assert job.read_to_end() == 130
