"""The log of job events tolerates a damaged end after a crash, but no other damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkpy.common.errors import CorruptStateError, LeadershipLostError
from flinkpy.jobmaster.job_event_store.job_event_store import MAGIC, EventLogWriter, read_log, take_over

PAYLOADS = [b"first", b"the second one", b"third" * 50]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "recovery" / "events.log"
    writer = EventLogWriter(path, 0)
    for payload in PAYLOADS:
        writer.append([payload])
    writer.close()
    return path


def test_appended_events_are_read(log: Path) -> None:
    assert read_log(log) == (PAYLOADS, log.stat().st_size)


def test_a_missing_file_has_no_events(tmp_path: Path) -> None:
    assert read_log(tmp_path / "none") == ([], 0)


def test_an_interrupted_write_keeps_all_earlier_events(log: Path) -> None:
    content = log.read_bytes()
    ends = [len(MAGIC)]
    for payload in PAYLOADS:
        ends.append(ends[-1] + 12 + len(payload))
    for size in range(len(content)):
        log.write_bytes(content[:size])
        payloads, whole = read_log(log)
        assert payloads == PAYLOADS[: sum(end <= size for end in ends[1:])]
        assert whole == max([end for end in ends if end <= size], default=0)


def test_a_tail_of_zeros_is_cut_off(log: Path) -> None:
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(bytes(100))
    assert read_log(log) == (PAYLOADS, size)


def test_a_last_record_that_is_damaged_counts_as_cut_off(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    assert read_log(log)[0] == PAYLOADS[:2]


def test_any_damage_before_the_last_record_is_found(log: Path) -> None:
    content = log.read_bytes()
    last = len(content) - 12 - len(PAYLOADS[2])
    for position in range(last):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        log.write_bytes(damaged)
        with pytest.raises(CorruptStateError, match=os.path.basename(log)):
            read_log(log)


def test_a_writer_appends_after_the_last_complete_record(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"a torn re")
    _, whole = read_log(log)
    writer = EventLogWriter(log, whole)
    writer.append([b"fourth", b"fifth"])
    writer.close()
    assert read_log(log)[0] == [*PAYLOADS, b"fourth", b"fifth"]


def test_a_former_writer_notices_its_successor(log: Path) -> None:
    former = EventLogWriter(log, log.stat().st_size)
    _, whole = read_log(log)
    writer = EventLogWriter(log, whole)
    with pytest.raises(LeadershipLostError, match=os.path.basename(log)):
        former.append([b"of one that does not know that it is over"])
    writer.append([b"of its successor"])
    former.close()
    writer.close()
    assert read_log(log)[0] == [*PAYLOADS, b"of its successor"]


def test_a_successor_reads_everything_that_the_former_writer_does_not_get_an_error_for(log: Path) -> None:
    """The successor takes the log over, and dies before it has copied it. The next one reads the same."""
    former = EventLogWriter(log, log.stat().st_size)
    former.append([b"before"])
    assert read_log(take_over(log))[0] == [*PAYLOADS, b"before"]
    with pytest.raises(LeadershipLostError):
        former.append([b"after"])
    former.close()
    records, whole = read_log(take_over(log))
    writer = EventLogWriter(log, whole)
    writer.append([b"of the next"])
    writer.close()
    assert read_log(log)[0] == [*records, b"of the next"]
    assert [path.name for path in log.parent.iterdir()] == [log.name]
