"""FileSource and FileSink on Google Cloud Storage and Azure, as emulators speak their protocols: `gs://` and `abfs://`.

The emulators are fetched once, from PyPI and npm. They have addresses of their own, which a URI cannot name, so this
runs the connectors in the process of the test. test_file_connector_on_s3.py runs whole jobs on S3.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ports import own_port
from pyarrow import fs
from requirements import require

from flinkpy.checkpoint.storage import file_systems
from flinkpy.checkpoint.storage.arrow_file_system import ArrowFileSystem
from flinkpy.common.serialization import Encoder
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner
from flinkpy.connectors.file_source import FileSource
from flinkpy.formats.file_format import FileSourceSplit, StreamFormat
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

pytestmark = [pytest.mark.timeout(600), pytest.mark.differential]

EMULATORS = Path(__file__).resolve().parents[2] / ".data" / "emulators"
#: The account that Azurite always has.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
FETCHES = {
    "gs": [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        "gs",
        "gcp-storage-emulator==2026.7.19",
        "setuptools<81",
    ],
    "abfs": ["npm", "install", "--silent", "--prefix", "abfs", "azurite@3"],
}
_FETCH_S, _START_S = 300, 60.0


def fetch(scheme: str) -> str | None:
    """Fetches an emulator unless it is there. Returns the reason if it cannot. Safe for concurrent processes."""
    if shutil.which(FETCHES[scheme][0]) is None:
        return f"{FETCHES[scheme][0]} is not installed"
    EMULATORS.mkdir(parents=True, exist_ok=True)
    with open(EMULATORS / f"{scheme}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = EMULATORS / f"{scheme}.txt"
        wanted = " ".join(FETCHES[scheme][1:])
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(EMULATORS / scheme, ignore_errors=True)
            completed = subprocess.run(
                FETCHES[scheme], cwd=EMULATORS, capture_output=True, text=True, check=False, timeout=_FETCH_S
            )
            if completed.returncode:
                return f"{completed.stdout}{completed.stderr}"[-1000:]
            done.write_text(wanted)
    return None


@contextmanager
def emulator(scheme: str, directory: Path) -> Iterator[Any]:
    """Runs an emulator, and yields its file system of pyarrow."""
    port = own_port()
    if scheme == "gs":
        start = "from gcp_storage_emulator.__main__ import main; main()"
        settings = ["start", "--host=127.0.0.1", f"--port={port}", "--in-memory", "--default-bucket=lake"]
        command = [sys.executable, "-c", start, *settings]
        environment = {**os.environ, "PYTHONPATH": str(EMULATORS / "gs")}
    else:
        program = str(EMULATORS / "abfs" / "node_modules" / ".bin" / "azurite-blob")
        command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
        command.append("--skipApiVersionCheck")
        environment = dict(os.environ)
    log = directory / "emulator.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=directory, env=environment)
    try:
        address = f"127.0.0.1:{port}"
        if scheme == "gs":
            patience = datetime.timedelta(seconds=5)
            made: Any = fs.GcsFileSystem(
                anonymous=True, scheme="http", endpoint_override=address, retry_time_limit=patience
            )
        else:
            places = {"blob_storage_authority": address, "dfs_storage_authority": address}
            schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
            made = fs.AzureFileSystem(AZURE_ACCOUNT, account_key=AZURE_KEY, **places, **schemes)
        deadline = time.monotonic() + _START_S
        while True:
            try:
                made.create_dir("lake")
                break
            except OSError as error:
                assert process.poll() is None and time.monotonic() < deadline, f"{error}\n{log.read_text()[-2000:]}"
                time.sleep(0.1)
        yield made
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["gs", "abfs"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A directory in a bucket."""
    scheme = request.param
    reason = fetch(scheme)
    require("emulators", reason is None, f"an emulator of {scheme}:// ({reason})")
    with emulator(scheme, tmp_path) as arrow:
        known = file_systems.FileSystems()
        bucket = "gs://lake" if scheme == "gs" else f"abfs://lake@{AZURE_ACCOUNT}.dfs.core.windows.net"
        known._remote[bucket] = ArrowFileSystem(arrow, scheme)
        before, file_systems._of_process = file_systems._of_process, known
        try:
            yield f"{bucket}/out"
        finally:
            file_systems._of_process = before


class ByFirstLetter(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"k={element[0]}"


class _Context:
    """Implements WriterContext for the only writer of a batch job."""

    subtask_index = attempt_number = 0
    parallelism = 1
    input_type = restored_checkpoint_id = None
    is_checkpointing_enabled = is_exactly_once = waits_for_final_checkpoint = False

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id


def write(builder: Any, values: list[str], job_id: str) -> Any:
    """Writes as a batch job does. Returns a function that commits, as often as it is called."""
    sink = (
        builder.with_bucket_assigner(ByFirstLetter())
        .set_property("sink.partition-commit.policy.kind", "success-file")
        .build()
    )
    context: Any = _Context(job_id)
    writer = sink.create_writer(context)
    writer.write(Batch(values))
    writer.flush(True)
    committables = writer.prepare_commit()
    writer.close()

    def commit() -> None:
        pending = Committables()
        pending.add(END_OF_INPUT_ID, committables)
        pending.commit_up_to(END_OF_INPUT_ID, sink.create_committer(), 0)

    return commit


def read(base: str) -> dict[str, list[str]]:
    """Returns the lines that a FileSource reads, by directory."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), base).build()
    found: dict[str, list[str]] = {}
    for path, size in source.list_files():
        reader = source.file_format.open(FileSourceSplit("1", path, 0, size, size), 100)
        while (batch := reader.read_batch()) is not None:
            found.setdefault(path.removeprefix(f"{base}/").rpartition("/")[0], []).extend(batch.values)
        reader.close()
    return {directory: sorted(lines) for directory, lines in found.items()}


def test_files_in_a_bucket_are_written_replaced_and_read(base: str) -> None:
    first = write(FileSink.for_row_format(base, Encoder.simple_string_encoder()).overwrite(), ["a1", "b1", "c1"], "1-1")
    assert read(base) == {}
    for _ in range(2):
        first()
    assert read(base) == {"k=a": ["a1"], "k=b": ["b1"], "k=c": ["c1"]}
    builder = FileSink.for_row_format(base, Encoder.simple_string_encoder()).overwrite_partitions()
    second = write(builder, ["a2", "a3"], "2-1")
    for commit in (second, first, second):
        commit()
    assert read(base) == {"k=a": ["a2", "a3"], "k=b": ["b1"], "k=c": ["c1"]}
    store = file_systems.process_file_systems().of(base)
    names = [
        info.base_name
        for info in store.arrow.get_file_info(fs.FileSelector(store.inner(base), recursive=True))
        if info.type == fs.FileType.File and not info.base_name.startswith("part-")
    ]
    assert sorted(names) == [".committed-1-1", ".committed-2-1", *["_SUCCESS"] * 4]
