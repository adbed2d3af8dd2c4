"""The peers' own virtual environment, and how their programs are run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BENCH_DIR = ROOT / ".bench"
PROGRAMS = Path(__file__).resolve().parent / "programs"
PYFLINK = "apache-flink==2.3.0"


def pyflink_python() -> Path:
    """The interpreter of the environment with PyFlink in it, made on first use. Needs Java on the PATH."""
    if shutil.which("java") is None:
        raise SystemExit("the peer PyFlink needs Java 17 on the PATH")
    home = BENCH_DIR / "pyflink"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        sys.stderr.write(f"installing {PYFLINK} into {home} (once)\n")
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PYFLINK], check=True)
        (home / "ready").touch()
    return python


def run_program(python: Path | str, program: str, *arguments: object, timeout_s: float = 900) -> list[dict[str, Any]]:
    """Run one of `programs/` and return the JSON objects it printed."""
    # PyFlink's workers are started as `python`: the interpreter's own directory must come first on the PATH.
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    environment = dict(os.environ, PYTHONWARNINGS="ignore", PATH=path)
    done = subprocess.run(
        [str(python), str(PROGRAMS / program), *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
        cwd=BENCH_DIR,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(map(str, arguments))} failed:\n{done.stdout}\n{done.stderr}"[-4000:])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def steady_rate(measured: list[dict[str, Any]]) -> float:
    """Rows per second between two sizes of the same job: start-up cancels out, for either side."""
    small, large = measured[-2], measured[-1]
    return (large["rows"] - small["rows"]) / (large["seconds"] - small["seconds"])
