"""A session holds one process in reserve for its next region, and ends it with itself."""

from __future__ import annotations

from flinkpy.spark.session_handles import Reserve


class FakeProcess:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_process_is_taken_once() -> None:
    reserve: Reserve[FakeProcess] = Reserve()
    process = FakeProcess()
    assert reserve.wants_one
    reserve.put(process)
    assert not reserve.wants_one
    assert (reserve.take(), reserve.take()) == (process, None)
    assert not process.is_closed


def test_a_second_process_is_closed() -> None:
    reserve: Reserve[FakeProcess] = Reserve()
    one, other = FakeProcess(), FakeProcess()
    reserve.put(one)
    reserve.put(other)
    assert (one.is_closed, other.is_closed) == (False, True)


def test_a_closed_reserve_closes_its_process_and_all_that_come_late() -> None:
    reserve: Reserve[FakeProcess] = Reserve()
    early, late = FakeProcess(), FakeProcess()
    reserve.put(early)
    reserve.close()
    reserve.put(late)
    assert early.is_closed
    assert late.is_closed
    assert not reserve.wants_one
