"""Programs that run on an embedded cluster: their results and errors, and that no process or file remains."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from job_support import wait_until

HEAD = """
import os, sys, threading, time
from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
"""
#: A job that runs until it is stopped, and prints its process id.
ENDLESS = """
def slow(value):
    if value < 2:
        print("running on", os.getpid(), flush=True)
    time.sleep(0.002)
    return value
env.from_sequence(0, 1 << 40).map(slow).filter(lambda value: False).print()
"""


#: A message that gRPC's asyncio server sometimes prints without logging when a call ends together with its process.
NOISE_OF_GRPC = re.compile(
    r"Traceback \(most recent call last\):\n  File \"[^\"]*server\.pyx\.pxi\", line \d+, in "
    r"grpc\._cython\.cygrpc\._schedule_rpc_coro\nasyncio\.exceptions\.CancelledError\n"
)


class Program:
    """A program in a separate process with a separate temporary directory."""

    def __init__(self, directory: Path, text: str) -> None:
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        path = directory / "program.py"
        path.write_text(HEAD + textwrap.dedent(text))
        self.path = path
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR", "FLINKPY_DYNAMIC_PROPERTIES"):
            environment.pop(variable, None)
        self.popen = subprocess.Popen(
            [sys.executable, str(path)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._seen: dict[int, psutil.Process] = {}

    def finish(self, timeout_s: float = 60.0) -> tuple[int, str, str]:
        """Returns the exit status, standard output and standard error."""
        output, error = self.popen.communicate(timeout=timeout_s)
        return self.popen.returncode, output, NOISE_OF_GRPC.sub("", error)

    def wait_for_line(self, pattern: str) -> str:
        """Returns the first matching line of standard output. Fails if the program does not print one."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if re.search(pattern, line):
                self.note_services()
                return line
        raise AssertionError(f"the program ended without printing {pattern}: {self.finish()}")

    def note_services(self) -> None:
        """Records the processes of the embedded cluster, to check later that they have ended."""
        for child in psutil.Process(self.popen.pid).children(recursive=True):
            self._seen[child.pid] = child

    def assert_nothing_is_left(self) -> None:
        assert self._seen, "no service was seen: the check would prove nothing"
        _, alive = psutil.wait_procs(self._seen.values(), timeout=20)
        assert [" ".join(child.cmdline()) for child in alive] == []


@pytest.fixture
def run(tmp_path: Path) -> Iterator[object]:
    programs: list[Program] = []

    def start(text: str) -> Program:
        directory = tmp_path / str(len(programs))
        directory.mkdir()
        programs.append(Program(directory, text))
        return programs[-1]

    yield start
    for program in programs:
        if program.popen.poll() is None:
            program.popen.kill()
            program.popen.communicate()


def test_printed_records_appear_in_the_programs_output(run) -> None:
    program = run(
        """
        words = env.set_parallelism(1).from_collection(["a", "b", "a"], type_info=Types.STRING())
        pairs = words.map(lambda w: (w, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        pairs.key_by(lambda p: p[0]).reduce(lambda l, r: (l[0], l[1] + r[1])).print()
        result = env.execute("words")
        print("runtime", result.get_net_runtime() >= 0)
        """
    )
    status, output, error = program.finish()
    assert (status, error) == (0, "")
    assert output.splitlines() == ["(a,1)", "(b,1)", "(a,2)", "runtime True"]
    assert list(program.temporary.rglob("*")) == []


def test_records_can_be_printed_to_the_standard_error(run) -> None:
    program = run(
        """
        env.set_parallelism(1).from_elements("a", "b").print_to_err("id")
        env.execute()
        """
    )
    assert program.finish() == (0, "", "id> a\nid> b\n")


def test_warnings_of_functions_are_shown_and_limited(run) -> None:
    program = run(
        """
        import logging, warnings
        def check(value):
            logging.getLogger("my.job").warning("odd value %d", value)
            logging.getLogger("my.job").info("not shown")
            if value == 0:
                warnings.warn("only once")
            return value
        env.set_parallelism(1).from_sequence(0, 1999).map(check).filter(lambda value: False).print()
        env.execute()
        """
    )
    status, output, error = program.finish()
    assert (status, output) == (0, "")
    assert "WARNING" in error and "my.job - odd value 0\n" in error and "UserWarning: only once" in error
    assert "not shown" not in error
    assert 200 <= error.count("odd value") < 2000, "a burst of 250 with the other warnings, and not all of them"
    assert re.search(r"\d+ log records were dropped: more than env.log.rate-limit \(50\) per second", error)


#: `where(value, processes)` returns its process id after `processes` processes of this test have called it.
MEETING = """
import tempfile
meeting = tempfile.mkdtemp(dir=os.path.dirname(__file__))
def where(value, processes):
    open(f"{meeting}/{os.getpid()}", "w").close()
    while len(os.listdir(meeting)) < processes:
        time.sleep(0.01)
    return os.getpid()
"""


def test_a_parallel_job_runs_in_several_processes(run) -> None:
    program = run(
        MEETING
        + """
env.set_parallelism(2)
with env.from_sequence(1, 500).map(lambda value: where(value, 2)).execute_and_collect() as pids:
    print(len(set(pids) - {os.getpid()}))
"""
    )
    assert program.finish() == (0, "2\n", "")


def test_a_second_job_reuses_the_processes_and_a_wider_job_adds_more(run) -> None:
    program = run(
        MEETING
        + """
def pids(parallelism, processes):
    env.set_parallelism(parallelism)
    stream = env.from_sequence(1, 500 * parallelism).map(lambda value: where(value, processes))
    with stream.execute_and_collect() as found:
        return set(found)
first, second, third = pids(1, 1), pids(1, 1), pids(3, 3)
print(first == second, len(third) >= 2, first < third or first.isdisjoint(third))
"""
    )
    assert program.finish() == (0, "True True True\n", "")


def test_a_program_may_execute_a_job_on_a_thread_that_ends_early(run) -> None:
    program = run(
        """
        def job():
            env.set_parallelism(1).from_collection([1]).map(lambda n: n + 1).print()
            env.execute()
        for _ in range(2):
            thread = threading.Thread(target=job)
            thread.start()
            thread.join()
        """
    )
    assert program.finish() == (0, "2\n2\n", "")


def test_a_users_exception_shows_the_users_own_lines_first(run) -> None:
    program = run(
        """
        def halve(value):
            return value / (value - 3)
        env.set_parallelism(1).from_collection([1, 2, 3], type_info=Types.INT()).map(halve).print()
        try:
            env.execute("division")
        except Exception as error:
            print(type(error).__name__)
            print(error)
        """
    )
    status, output, error = program.finish()
    lines = [line for line in output.splitlines() if line]
    assert (status, error) == (0, "")
    start = lines.index("JobExecutionError")
    assert lines[start + 1] == "Traceback (most recent call last):"
    assert "program.py" in lines[start + 2] and "in halve" in lines[start + 2]
    assert any("ZeroDivisionError" in line for line in lines)
    assert any("division" in line for line in lines[-2:])


def test_ctrl_c_ends_the_program_and_leaves_no_process(run) -> None:
    program = run(ENDLESS + "env.set_parallelism(1)\nenv.execute('endless')\n")
    program.wait_for_line("running on")
    program.popen.send_signal(signal.SIGINT)
    assert_interrupted(program)


def test_ctrl_c_ends_a_program_whose_cluster_is_starting(run) -> None:
    program = run(ENDLESS + "env.set_parallelism(1)\nenv.execute('endless')\n")
    services = psutil.Process(program.popen.pid)
    wait_until(lambda: len(services.children()) >= 2, "the first services have been started")
    program.note_services()
    program.popen.send_signal(signal.SIGINT)
    assert_interrupted(program)


def assert_interrupted(program: Program) -> None:
    status, _, error = program.finish(timeout_s=30)
    assert status == -signal.SIGINT, "which a shell shows as 130"
    assert "KeyboardInterrupt" in error
    program.assert_nothing_is_left()
    assert list(program.temporary.rglob("*")) == []


@pytest.mark.parametrize("sig", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.chaos)])
def test_a_killed_program_leaves_no_process(run, sig: signal.Signals) -> None:
    program = run(ENDLESS + "env.set_parallelism(2)\nenv.execute('endless')\n")
    program.wait_for_line("running on")
    program.popen.send_signal(sig)
    program.finish(timeout_s=30)
    program.assert_nothing_is_left()


def test_a_job_ends_with_a_program_that_does_not_wait_for_it(run) -> None:
    program = run(
        ENDLESS
        + """
client = env.execute_async('endless')
while not os.path.exists(__file__ + ".goes-on"):
    time.sleep(0.01)
"""
    )
    program.wait_for_line("running on")
    program.path.with_name("program.py.goes-on").touch()
    began = time.monotonic()
    status, _, error = program.finish(timeout_s=30)
    assert (status, error) == (0, "")
    assert time.monotonic() - began < 25
    program.assert_nothing_is_left()


def test_a_wrong_option_starts_nothing(run) -> None:
    program = run(
        """
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"heartbeat.interval": "soon", "parallelism.defualt": "2"}))
        env.from_collection([1]).print()
        env.execute()
        """
    )
    status, output, error = program.finish()
    assert status == 1
    assert output == ""
    assert "2 mistakes" in error
    assert "did you mean `parallelism.default`?" in error


def test_a_task_executor_keeps_nothing_of_ended_jobs(run) -> None:
    """Every job searches its process for functions of earlier jobs, which hold keyed state, and for new channels."""
    program = run(
        """
        import gc, weakref
        import grpc.aio
        from flinkpy.datastream import KeyedProcessFunction
        from flinkpy.datastream.state import ValueStateDescriptor

        class Looks(KeyedProcessFunction):
            def open(self, context):
                self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
                # One process collects this for all jobs, while modules of jobs come and go.
                seen = vars(sys).setdefault("seen_by_jobs", {"functions": [], "channels": None})
                self.number = len(seen["functions"])
                if self.number == 1:  # the first job has fewer, because some are opened when they are needed
                    seen["channels"] = self.channels()
                deadline = time.monotonic() + 20
                while self.left(seen) != (0, 0) and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.result = self.left(seen)
                seen["functions"].append(weakref.ref(self))

            def channels(self):
                return sum(isinstance(found, grpc.aio.Channel) for found in gc.get_objects())

            def left(self, seen):
                functions = sum(reference() is not None for reference in seen["functions"])
                return functions, 0 if self.number < 2 else max(0, self.channels() - seen["channels"])

            def process_element(self, value, context):
                self.count.update(value)
                yield f"job {self.number} finds {self.result}"

        env.set_parallelism(1)
        for _ in range(5):
            env.from_collection([1], Types.LONG()).key_by(lambda value: value).process(Looks()).print()
            env.execute()
        """,
    )
    status, output, error = program.finish()
    assert status == 0, error
    assert output.splitlines() == [f"job {number} finds (0, 0)" for number in range(5)]
