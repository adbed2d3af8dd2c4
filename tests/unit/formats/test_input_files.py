"""Remote input files can be opened and listed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import threading
import zlib

import pyarrow as pa
import pytest

from flinkpy.checkpoint.storage.file_systems import process_file_systems, use_file_systems_in_this_thread
from flinkpy.common.errors import InputNotFoundError, UnsupportedOperationError
from flinkpy.formats import input_files
from flinkpy.formats.input_files import (
    input_path,
    is_remote,
    list_remote_files,
    local_path,
    open_input,
    open_random,
)

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def directory(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    uri = f"memory://in{tmp_path}"
    file_system = fsspec.filesystem("memory")

    def put(name, data):
        path = uri.removeprefix("memory:/") + "/" + name
        file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
        with file_system.open(path, "wb") as file:
            file.write(data)
        return f"{uri}/{name}"

    return uri, put


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".deflate", zlib.compress),
        (".zst", lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
    ],
)
def test_a_file_is_decompressed_by_its_extension(directory, suffix, compress):
    _, put = directory
    with open_input(put(f"file{suffix}", compress(CONTENT))) as file:
        assert file.read(10) == CONTENT[:10]
        parts = [file.read(4000) for _ in range(4)]
    assert b"".join(parts) == CONTENT[10:]


def test_reads_by_position_do_not_depend_on_read_ahead(directory, monkeypatch):
    _, put = directory
    uri = put("file", CONTENT)
    monkeypatch.setattr(input_files, "READ_AHEAD_BYTES", 1000)
    file = open_random(uri)
    for offset, size in ((0, 10), (5, 900), (995, 20), (3000, 5000), (2999, 1), (len(CONTENT) - 5, 100), (1 << 20, 5)):
        assert file.read_at(size, offset) == CONTENT[offset : offset + size]
    file.close()


def test_visible_files_are_listed_with_their_sizes(directory):
    uri, put = directory
    for name in ("b/2", "a", "b/.hidden", "_c/3", ".d"):
        put(name, b"x" * len(name))
    found = list_remote_files(uri, lambda name: not name.startswith((".", "_")))
    assert found == [(f"{uri}/a", 1), (f"{uri}/b/2", 3)]
    assert list_remote_files(f"{uri}/a", lambda name: True) == [(f"{uri}/a", 1)]
    with pytest.raises(InputNotFoundError, match="nowhere"):
        list_remote_files(f"{uri}/nowhere", lambda name: True)
    with pytest.raises(InputNotFoundError, match="nowhere"):
        open_input(f"{uri}/nowhere")


def test_paths_are_normalized():
    assert not is_remote("/a/b")
    assert not is_remote("a:b/c")
    assert is_remote("s3://bucket/key")
    assert input_path("s3://bucket/key/") == "s3://bucket/key"
    assert input_path("hdfs:///key") == "hdfs:///key"
    assert input_path("file:///a/b") == input_path("file:/a/b") == input_path("/a/b") == "/a/b"
    with pytest.raises(UnsupportedOperationError, match="s3://"):
        local_path("s3://bucket/key")
    with pytest.raises(UnsupportedOperationError, match="nothing://"):
        open_input("nothing://a/b")


def test_a_task_uses_the_file_systems_of_its_job():
    seen = []

    def task():
        before = process_file_systems()
        use_file_systems_in_this_thread({"s3.endpoint": "http://job"})
        seen.append((before, process_file_systems()))

    thread = threading.Thread(target=task)
    thread.start()
    thread.join(10)
    [(before, after)] = seen
    assert before is process_file_systems()
    assert after is not before
