"""Forged savepoints: metadata that names other files, and damaged state files.

Restoring or disposing of such a savepoint succeeds or raises a typed error. No file outside of the savepoint is
deleted, nothing hangs, and memory stays bounded. FLINKPY_SAVEPOINT_FUZZ_CASES is the number of cases,
FLINKPY_FUZZ_SEED the number of the first.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoint_states import make_storage, write_checkpoint
from fuzzing import cases, mutate, number_of_cases

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.metadata import encode_metadata, load_metadata
from flinkpy.checkpoint.savepoint_loader import (
    RecoveryClaimMode,
    SavepointRestoreSettings,
    dispose_savepoint,
    load_savepoint,
)
from flinkpy.checkpoint.state_handles import handles_of_metadata
from flinkpy.checkpoint.storage import FileSystems, StateFileReader
from flinkpy.common.errors import CheckpointNotFoundError, CheckpointStorageError, StateRestoreError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.state.key_groups_file import KeyGroupsFileReader, KeyGroupsHeader
from flinkpy.state.meta_info import StateMetaInfo
from flinkpy.state.operator_state import StateSection, read_sections, write_footer, write_prefix

CASES = number_of_cases("FLINKPY_SAVEPOINT_FUZZ_CASES", 600)
pytestmark = pytest.mark.timeout(max(120, CASES // 20))
FILES = FileSystems()
#: The permitted results of using a forged savepoint. CorruptStateError is a subclass of the second.
TYPED = (CheckpointNotFoundError, CheckpointStorageError, StateRestoreError)
#: The memory limit. The files of the cases have less than a hundred kilobytes.
MEMORY_BYTES = 8 << 20
_INT64 = [-(1 << 63), -1, 0, 1, 17, 1 << 31, 1 << 40, (1 << 63) - 1]


def paths(root: Path, inside: list[str]) -> list[str]:
    """Returns paths that a forged snapshot may name."""
    here = f"{root}/savepoint"
    return [
        *inside,
        f"{root}/home/thesis",
        f"{here}/../home/thesis",
        f"{here}/./../home/thesis",
        f"{here}//../home/thesis",
        "../home/thesis",
        "/",
        "",
        ".",
        "..",
        "a/../../home/thesis",
        f"file:{root}/home/thesis",
        f"file://{root}/home/thesis",
        f"{root}/shared/thesis",
        f"{root}/home/shared/../thesis",
        f"{here}/pipe",
        f"{here}/link/thesis",
        f"{here}/link",
        "/dev/zero",
        f"{here}/_metadata",
        f"{here}/x\x00y",
        f"{here}/\n",
        f"{here}/" + "x" * 5000,
        "memory://x/y",
        "nowhere://x/y",
    ]


class Forger:
    """A directory with a savepoint that is changed for each case, beside files that must stay."""

    def __init__(self, root: Path) -> None:
        self.root = root
        written = write_checkpoint(make_storage(root), 3, savepoint=True)
        source = Path(written.external_path)
        self._right = (source / "_metadata").read_bytes()
        self._metadata = load_metadata(FILES, str(source))[1]
        for handle in handles_of_metadata(self._metadata):
            if handle.WhichOneof("location") == "path":
                handle.relative_path = Path(handle.path).name
        self._files = {path.name: path.read_bytes() for path in source.iterdir()}
        self.directory = root / "savepoint"
        self.directory.mkdir()
        for place in ("home", "shared"):
            (root / place).mkdir()
            (root / place / "thesis").write_text("keep")

    def forge(self, rng: random.Random) -> None:
        self.directory.mkdir(exist_ok=True)
        for name, content in self._files.items():
            path = self.directory / name
            if not path.exists():
                path.write_bytes(content)
        # Files directly in the directory belong to the savepoint and are deleted with it.
        if not (self.directory / "pipe").exists():
            os.mkfifo(self.directory / "pipe")
        if not (self.directory / "link").is_symlink():
            (self.directory / "link").symlink_to(self.root / "home")
        (self.directory / "_metadata").write_bytes(self._content(rng))

    def _content(self, rng: random.Random) -> bytes:
        kind = rng.random()
        if kind < 0.1:
            return mutate(self._right, rng)
        metadata = pb.CheckpointMetadata()
        metadata.CopyFrom(self._metadata)
        if kind < 0.3:  # the message is changed and has a valid checksum
            body = mutate(metadata.SerializeToString(), rng)
            content = struct.pack(">8sIQ", b"\x89FLKPCP\n", rng.choice([0, 1, 1, 2]), len(body)) + body
            return content + hashlib.sha256(content).digest()
        names = list(self._files)
        for _ in range(rng.randint(1, 4)):
            self._forge_handle(rng.choice(list(handles_of_metadata(metadata))), rng, names)
        if rng.random() < 0.3:
            self._add_shared(metadata, rng, names)
        if rng.random() < 0.2:
            metadata.kind = rng.randrange(8)  # type: ignore[assignment]
        if rng.random() < 0.1:
            metadata.checkpoint_id = rng.choice(_INT64)
        return encode_metadata(metadata)

    def _forge_handle(self, handle: pb.StreamStateHandle, rng: random.Random, names: list[str]) -> None:
        path = rng.choice(paths(self.root, names))
        match rng.randrange(7):
            case 0 | 1:
                handle.path = path
            case 2 | 3:
                handle.relative_path = path
            case 4:
                handle.local_path = path
            case 5:
                handle.size_bytes = rng.choice(_INT64)
                handle.stored_size_bytes = rng.choice(_INT64)
            case 6:
                handle.compression = rng.choice(["zstd", "lz4", "none", "\n"])

    def _add_shared(self, metadata: pb.CheckpointMetadata, rng: random.Random, names: list[str]) -> None:
        incremental = metadata.operators[0].subtasks[0].keyed.add().incremental
        incremental.meta.data = b"meta"
        name = rng.choice(["0.sst", "../0.sst", ""])
        incremental.shared.add(local_name=name).handle.path = rng.choice(paths(self.root, names))

    def check(self) -> None:
        for place in ("home", "shared"):
            assert (self.root / place / "thesis").read_text() == "keep"


@pytest.fixture
def forger(tmp_path: Path) -> Iterator[Forger]:
    made = Forger(tmp_path)
    yield made
    made.check()


def test_no_forged_savepoint_harms_its_reader(forger: Forger) -> None:
    ended = {"used": 0, "refused": 0}
    for number, rng in cases(CASES // 2):
        forger.forge(rng)
        try:
            if rng.random() < 0.5:
                dispose_savepoint(str(forger.directory), FILES)
            else:
                mode = rng.choice(list(RecoveryClaimMode))
                loaded = load_savepoint(SavepointRestoreSettings(str(forger.directory), mode), FILES)
                reader = StateFileReader({}, FILES)
                for handle in handles_of_metadata(loaded.metadata):
                    reader.open(handle).close()
            ended["used"] += 1
        except TYPED:
            ended["refused"] += 1
        except BaseException as error:
            raise AssertionError(f"case {number} raised {error!r}") from error
        try:
            forger.check()
        except (AssertionError, OSError) as error:
            raise AssertionError(f"case {number} deleted files of others: {error}") from error
    assert min(ended.values()) > CASES // 100, ended


class Memory(io.BytesIO):
    """The part of a CheckpointOutputStream that this test uses."""


def keyed_file() -> tuple[bytes, pb.KeyGroupsStateHandle]:
    states = (StateMetaInfo("count", "value", None), StateMetaInfo("list", "list", None))
    content = bytearray(KeyGroupsHeader(128, None, states).to_bytes())
    handle = pb.KeyGroupsStateHandle(key_groups=pb.KeyGroupRangeMessage(start=0, end=3))
    for group in range(4):
        handle.offsets.append(len(content))
        payload = bytes([group]) * 50
        content += struct.pack("<IIQ", group % 2, 3, len(payload)) + payload
    handle.offsets.append(len(content))
    return bytes(content), handle


def operator_file() -> bytes:
    stream = Memory()
    write_prefix(stream)  # type: ignore[arg-type]
    stream.write(b"x" * 40)
    sections = [
        StateSection(12, 30, StateMetaInfo("a", "list", None)),
        StateSection(30, 52, StateMetaInfo("b", "map", None)),
    ]
    write_footer(stream, sections)  # type: ignore[arg-type]
    return stream.getvalue()


def other_json(rng: random.Random) -> bytes:
    value = rng.choice(
        [None, 1, -1, "x", [], {}, [[]], {"states": 1}, {"states": [1]}, {"states": [{}]}, 1e999, {"a": None}]
    )
    return rng.choice([json.dumps(value).encode(), b"[" * 100_000, b"\xff", b"9" * 5000])


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Returns the content with changed numbers, JSON or single bytes."""
    if rng.random() < 0.3:
        at = rng.randrange(0, len(content) - 8)
        form = rng.choice(["<Q", "<I"])
        new = rng.choice([0, 1, 255, 1 << 20, (1 << 31) - 1, (1 << 32) - 1])
        changed = bytearray(content)
        struct.pack_into(form, changed, at, new if form == "<I" else new << rng.choice([0, 31]))
        return bytes(changed)
    if rng.random() < 0.3:
        text = other_json(rng)
        return content[:12] + struct.pack("<I", len(text)) + text
    return mutate(content, rng)


def test_mutated_state_files_are_read_or_refused() -> None:
    (keyed, right), operator = keyed_file(), operator_file()
    tracemalloc.start()
    try:
        for number, rng in cases(CASES // 2):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            handle = pb.KeyGroupsStateHandle()
            handle.CopyFrom(right)
            if rng.random() < 0.3:
                handle.offsets[rng.randrange(len(handle.offsets))] = rng.choice(_INT64)
            if rng.random() < 0.1:
                handle.key_groups.start, handle.key_groups.end = rng.choice([(-5, 3), (0, 1 << 30), (3, 0)])
            try:
                if rng.random() < 0.7:
                    reader = KeyGroupsFileReader(io.BytesIO(damaged(keyed, rng)), handle)
                    for chunk in reader.chunks(KeyGroupRange(0, 127)):
                        assert chunk.state_index < len(reader.header.states)
                else:
                    read_sections(io.BytesIO(damaged(operator, rng)), "state")
            except (CheckpointStorageError, StateRestoreError):
                pass
            except BaseException as error:
                raise AssertionError(f"case {number} raised {error!r}") from error
            taken = tracemalloc.get_traced_memory()[1] - before
            assert taken < MEMORY_BYTES, f"case {number} took {taken:,} bytes"
    finally:
        tracemalloc.stop()


def test_a_state_file_with_a_false_length_takes_no_memory_for_it(tmp_path: Path) -> None:
    """A file object would allocate the declared length before it reads."""
    content, handle = keyed_file()
    path = tmp_path / "state"
    at = handle.offsets[0]
    path.write_bytes(content[: at + 8] + struct.pack("<Q", 1 << 38) + content[at + 16 :])
    with open(path, "rb") as file, pytest.raises(CheckpointStorageError, match="key group 0 is damaged"):
        list(KeyGroupsFileReader(file, handle).chunks(KeyGroupRange(0, 127)))
