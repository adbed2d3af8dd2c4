"""Programs of applications as text. They run as files in separate processes."""

from __future__ import annotations

from pathlib import Path

_HEAD = """
import os, pathlib, sys, time
from flinkpy.datastream import StreamExecutionEnvironment

HERE = pathlib.Path(__file__).parent
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

def note(name, line=""):
    with open(HERE / name, "a") as file:
        file.write(f"{line}\\n")

def write_to(name, open_gate=None):
    path = str(HERE / name)
    gate = None if open_gate is None else str(HERE / open_gate)

    def write(value):
        while gate is not None and not os.path.exists(gate):
            time.sleep(0.01)
        with open(path, "a") as file:
            file.write(f"{value}\\n")
        return value

    return write

note("main", os.getpid())
"""

#: Two jobs, one after the other.
TWO_JOBS = """
for number in (1, 2):
    env.from_collection([10 * number, 10 * number + 1]).map(write_to(f"out-{number}")).print()
    result = env.execute(f"job {number}")
    note("ids", result.get_job_id())
note("arguments", " ".join(sys.argv[1:]))
"""

NO_JOB = "env.from_collection([1]).print()\n"

EXITS_WITH_3 = """
env.from_collection([1]).print()
env.execute("fine")
sys.exit(3)
"""

#: A job that never ends runs when main raises.
RAISES_BESIDE_A_JOB = """
env.from_collection([1, 2]).map(write_to("out", "no such gate")).print()
env.execute_async("endless")
while not (HERE / "go").exists():
    time.sleep(0.01)
raise ValueError("a mistake of its own")
"""

#: A job with checkpoints that runs until it is cancelled or stopped.
UNTIL_GATE_OPENS = """
env.enable_checkpointing(100)
env.from_sequence(0, 10**12).map(lambda n: time.sleep(0.002) or n).filter(lambda n: n % 100 == 0).map(
    write_to("out")).print()
env.execute("endless")
note("after")
"""

#: A program that ignores the failure of its first job.
OVERLOOKS_A_FAILURE = """
def fail(value):
    raise RuntimeError("as it should")

env.from_collection([1]).map(fail).print()
failing = env.execute_async("fails")
try:
    failing.get_job_execution_result().result()
except Exception as error:
    note("overlooked", type(error).__name__)
if "--wait" in sys.argv:
    time.sleep(600)
env.from_collection([2]).map(write_to("out")).print()
env.execute("works")
"""

#: A job that ends, followed by one that ends when the gate opens.
ENDS_AT_GATE = """
env.from_collection([1, 2]).map(write_to("first")).print()
env.execute("first")
note("after first")
env.enable_checkpointing(100)
env.from_collection([3, 4]).map(write_to("second", "gate")).print()
env.execute("second")
note("after second")
"""


def program(directory: Path, body: str, name: str = "program.py") -> Path:
    """Returns the file of the program in `directory`, where the program also writes its notes."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(_HEAD + body)
    return path


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
