"""Builds other releases of flinkpy for tests: copies of this one with another version and protocol, and with additions
to the proto files.

A service runs such a release if it starts while PYTHONPATH names the directory of the copy (`as_release`).
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import flinkpy

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(flinkpy.__file__).parent

#: An additional call, and additional fields in messages that all processes send.
_NEXT_PROTO = {
    "dispatcher.proto": (
        (
            "  rpc CancelJob(JobIdMessage)",
            "  rpc RequestNextThing(JobIdMessage) returns (JobStatusResponse);\n  rpc CancelJob(JobIdMessage)",
        ),
        ("message JobMasterHello {", "message JobMasterHello {\n  string mood = 901;"),
        ("message JobStatusUpdate {", "message JobStatusUpdate {\n  repeated int64 next_things = 901;"),
        ("message StartJob {", "message StartJob {\n  map<string, string> next_things = 901;"),
    ),
    "taskexecutor.proto": (("message SubmitTasksRequest {", "message SubmitTasksRequest {\n  string mood = 901;"),),
}
_NEXT_METHOD = """
    @unfenced
    def request_next_thing(self, request: pb.JobIdMessage, context: CallContext) -> pb.JobStatusResponse:
        return pb.JobStatusResponse(job_id=f"spoken: {context.protocol}")

    @unfenced
    async def cancel_job("""


def _replace(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in pairs:
        assert text.count(old) == 1, f"{path.name} has {text.count(old)} times: {old}"
        text = text.replace(old, new)
    path.write_text(text)


def build_release(directory: Path, version: str, *, protocol: int, min_protocol: int = 1) -> Path:
    """Builds a later release with a new version of the data plane, and returns its directory."""
    package = directory / "flinkpy"
    # Include compiled files: with PYTHONDONTWRITEBYTECODE each process would compile the release again.
    shutil.copytree(PACKAGE, package)
    (package / "__init__.py").write_text(
        re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', (package / "__init__.py").read_text())
    )
    versions = package / "rpc" / "versions.py"
    text = re.sub(r"(?m)^PROTOCOL = \d+$", f"PROTOCOL = {protocol}", versions.read_text())
    versions.write_text(re.sub(r"(?m)^MIN_PROTOCOL = \d+$", f"MIN_PROTOCOL = {min_protocol}", text))
    frames = package / "network" / "transport" / "frames.py"
    newest = re.compile(r"(?m)^PROTOCOL_VERSION = (\d+)$")
    frames.write_text(newest.sub(lambda found: f"PROTOCOL_VERSION = {int(found[1]) + 1}", frames.read_text()))
    _replace(package / "dispatcher" / "dispatcher.py", ("\n    @unfenced\n    async def cancel_job(", _NEXT_METHOD))
    sources = directory / "sources"
    shutil.copytree(ROOT / "proto", sources / "proto")
    for name, changes in _NEXT_PROTO.items():
        _replace(sources / "proto" / "flinkpy" / name, *changes)
    spec = importlib.util.spec_from_file_location("gen_proto", ROOT / "tools" / "gen_proto.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    generator.ROOT = sources
    generator.generate(package / "_proto")
    compileall.compile_dir(package, quiet=2)
    return directory


@contextmanager
def as_release(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[None]:
    """Processes that start within the block run that release."""
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")]).rstrip(":"))
        yield
