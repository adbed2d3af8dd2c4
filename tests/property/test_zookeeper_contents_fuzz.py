"""Nodes of ZooKeeper with contents that flinkpy did not write.

Each content is either read or refused with one typed error that names the node. No path leads out of the directory of
the store, and numbers are in range. FLINKPY_ZOOKEEPER_FUZZ_CASES is the number of cases, FLINKPY_FUZZ_SEED the number
of the first.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fuzzing import cases, mutate, number_of_cases

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.common.durable_file import CorruptFileError, write_checksummed
from flinkpy.common.errors import HighAvailabilityError
from flinkpy.common.ids import JobID
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.highavailability.leader_latch import sequence_of, token_of
from flinkpy.highavailability.zookeeper import checkpoint_stores, leader_information, storage
from flinkpy.highavailability.zookeeper.checkpoint_stores import (
    ZooKeeperCheckpointIDCounter,
    ZooKeeperCheckpointPointerStore,
)
from flinkpy.highavailability.zookeeper.job_graph_store import ZooKeeperJobGraphStore

CASES = number_of_cases("FLINKPY_ZOOKEEPER_FUZZ_CASES", 3000)
pytestmark = pytest.mark.timeout(max(120, CASES // 50))
JOB = JobID("0123456789abcdef0123456789abcdef")
NODE = "/flinkpy/node"


class Node:
    """A ZooKeeper in which every node has the same content, and one child with a random name."""

    settings = SimpleNamespace(
        job_graphs="/graphs", checkpoints=lambda _: "/checkpoints", checkpoint_id_counter=lambda _: "/counter"
    )

    def __init__(self) -> None:
        self.data: bytes | None = b""
        self.name = "child"

    def sync(self, _: str) -> None: ...

    def get_data(self, _: str) -> bytes | None:
        return self.data

    def get_children(self, _: str) -> list[str]:
        return [self.name]


def right_contents(graph_name: str) -> list[bytes]:
    """Returns valid contents of flinkpy's nodes: an address, a file name, a storage id, a number, a pointer."""
    pointer = checkpoint_pb2.CompletedCheckpointPointers.Pointer(
        checkpoint_id=7, external_path="/c/chk-7", is_owned=True
    )
    return [
        leader_information.encode(LeaderInformation("host:6123", "0123456789abcdef0123456789abcdef")),
        json.dumps({"file": graph_name}).encode(),
        b"0123456789abcdef0123456789abcdef",
        b"42",
        checkpoint_stores._encode(pointer),
    ]


_STRANGE: list[Any] = [
    None,
    0,
    -1,
    1e308,
    True,
    "",
    "x",
    ".",
    "..",
    "../../home/thesis.jobgraph",
    "/etc/passwd.jobgraph",
    "a\\b.jobgraph",
    "a\x00b.jobgraph",
    "\n.jobgraph",
    "x" * 300 + ".jobgraph",
    ".jobgraph",
    "\ud800",
    "\ud800.jobgraph",
    "host:6123\r\nx: y",
    "höst:1",
    [],
    {},
    [[]],
    {"file": "x"},
]
_RAW = [
    b"",
    b"\xff\xfe",
    b"[" * 3000,
    b"[" * 200_000,
    b'{"address":' * 5000,
    b"9" * 19,
    b"9" * 18,
    b"9" * 20,
    b"9223372036854775808",
    b"-1",
    b"1_0",
    b" 7",
    b"\xc2\xb2",
    b"NaN",
    b"0" * 5000,
]


def content(rng: random.Random, right: list[bytes]) -> bytes | None:
    kind = rng.random()
    if kind < 0.02:
        return None
    if kind < 0.1:
        return rng.choice(right)
    if kind < 0.3:
        return rng.choice(_RAW)
    if kind < 0.6:
        keys = rng.sample(["address", "fencing_token", "file", "x"], rng.randint(0, 3))
        return json.dumps({key: rng.choice([*_STRANGE, "host:1"]) for key in keys}).encode()
    if kind < 0.7:
        return json.dumps(rng.choice(_STRANGE)).encode()
    if kind < 0.8:  # a pointer with a valid checksum
        message = mutate(rng.choice(right), rng)
        return checkpoint_stores._MAGIC + checkpoint_stores._digest(message) + message
    return mutate(rng.choice(right), rng)


def test_mutated_nodes_are_read_or_refused(tmp_path: Path) -> None:
    directory = tmp_path / "execution-plans"
    directory.mkdir()
    graph = directory / f"{JOB}-1.jobgraph"
    write_checksummed(graph, job_pb2.JobGraph(job_id=str(JOB)).SerializeToString())
    outside = tmp_path / "home"
    outside.mkdir()
    write_checksummed(outside / "thesis.jobgraph", job_pb2.JobGraph(job_id="other").SerializeToString())
    zookeeper = Node()
    client = cast(Any, zookeeper)
    graphs = ZooKeeperJobGraphStore(client, cast(Any, None), directory, lambda: None)
    pointers = ZooKeeperCheckpointPointerStore(client, cast(Any, None), JOB)
    right = right_contents(graph.name)
    understood = 0
    for number, rng in cases(CASES):
        zookeeper.data = content(rng, right)
        zookeeper.name = rng.choice(["0000000000000000007", "x", "a\nb", "-latch-0000000001", "\ud800"])
        match rng.randrange(5):
            case 0:
                understood += _leader_is_understood(zookeeper.data or b"", number)
            case 1:
                understood += _graph_is_understood(graphs, number)
            case 2:
                understood += _id_is_understood(zookeeper.data, number)
            case 3:
                understood += _number_is_understood(client, number)
            case _:
                understood += _pointers_are_understood(pointers, number)
    assert understood > CASES // 200, understood


def _leader_is_understood(data: bytes, number: int) -> bool:
    try:
        leader = leader_information.decode(data, NODE)
    except HighAvailabilityError as error:
        assert NODE in str(error), f"case {number}"
        return False
    except BaseException as error:
        raise AssertionError(f"case {number} raised {error!r}") from error
    assert leader.address.isascii() and leader.address.isprintable(), f"case {number}"  # becomes a target of gRPC
    assert leader.fencing_token.isascii() and leader.fencing_token.isprintable(), f"case {number}"  # its metadata
    return True


def _graph_is_understood(graphs: ZooKeeperJobGraphStore, number: int) -> bool:
    try:
        graph = graphs.recover(JOB)
    except (FileNotFoundError, CorruptFileError):
        return False
    except BaseException as error:
        raise AssertionError(f"case {number} raised {error!r}") from error
    assert graph.job_id == str(JOB), f"case {number} read a file of somebody else"
    return True


def _id_is_understood(data: bytes | None, number: int) -> bool:
    try:
        return storage._decode(data, NODE) is not None
    except HighAvailabilityError:
        return False
    except BaseException as error:
        raise AssertionError(f"case {number} raised {error!r}") from error


def _number_is_understood(client: Any, number: int) -> bool:
    try:
        counter = ZooKeeperCheckpointIDCounter(client, cast(Any, None), JOB)
        checkpoint_pb2.CheckpointMetadata(checkpoint_id=counter.next_id)
    except HighAvailabilityError:
        return False
    except BaseException as error:
        raise AssertionError(f"case {number} raised {error!r}") from error
    return True


def _pointers_are_understood(pointers: ZooKeeperCheckpointPointerStore, number: int) -> bool:
    try:
        return len(pointers.load().pointers) == 1
    except CorruptFileError:
        return False
    except BaseException as error:
        raise AssertionError(f"case {number} raised {error!r}") from error


def test_mutated_node_names_can_be_parsed() -> None:
    ours = f"{'0' * 32}-latch-0000000007"
    for number, rng in cases(CASES // 4):
        name = mutate(ours.encode(), rng).decode(errors=rng.choice(["replace", "ignore"]))
        assert sequence_of(name) >= 0, f"case {number}: {name!r}"
        assert isinstance(token_of(name), str)
