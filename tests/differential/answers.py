"""Runs `program.py` on PyFlink and on flinkpy, and brings the output into a comparable form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cases import Case

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "program.py"

#: Case -> "tag key" -> payloads in the order of output. These must be equal; the order between keys is free.
Answers = list[dict[str, list[Any]]]


def pyflink_answers(
    cases: list[Case], python: Path, directory: Path, settings: dict[str, str] | None = None
) -> Answers:
    """Returns PyFlink's results.

    Args:
        python: the interpreter of an environment with apache-flink.
        settings: configuration keys and their values.
    """
    jar = _watermarks_jar(python, directory)
    # PyFlink's workers are started as `python`: the interpreter's own directory must come first on the PATH.
    environment = dict(os.environ, PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}", PYTHONWARNINGS="ignore")
    arguments = [str(jar), *_words(settings)]
    return _run([str(python), str(PROGRAM), "pyflink"], cases, directory, arguments, environment)


def flinkpy_answers(cases: list[Case], directory: Path, settings: dict[str, str] | None = None) -> Answers:
    """Returns flinkpy's results.

    Args:
        settings: configuration keys and their values.
    """
    arguments = ["-", *_words(settings)]
    return _run([sys.executable, str(PROGRAM), "flinkpy"], cases, directory, arguments, dict(os.environ))


def _words(settings: dict[str, str] | None) -> list[str]:
    return [f"{key}={value}" for key, value in (settings or {}).items()]


def _run(
    command: list[str], cases: list[Case], directory: Path, arguments: list[str], environment: dict[str, str]
) -> Answers:
    path = directory / "cases.json"
    path.write_text(json.dumps(cases))
    done = subprocess.run(
        [*command, str(path), *arguments], check=False, capture_output=True, text=True, env=environment, cwd=directory
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    answers: Answers = [{} for _ in cases]
    for line in done.stdout.splitlines():
        if line.startswith("["):
            number, tag, key, payload = json.loads(line)
            answers[number].setdefault(f"{tag} {key}", []).append(payload)
    return answers


def _watermarks_jar(python: Path, directory: Path) -> Path:
    """Returns a jar with the watermark strategy for PyFlink, where it cannot be written in Python."""
    libraries = next(python.parent.parent.glob("lib/python*/site-packages/pyflink/lib"))
    distribution = next(libraries.glob("flink-dist-*.jar"))
    classes, jar = directory / "classes", directory / "row-watermarks.jar"
    source = HERE / "java" / "RowWatermarks.java"
    subprocess.run(["javac", "-cp", str(distribution), "-d", str(classes), str(source)], check=True)
    subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)
    return jar
