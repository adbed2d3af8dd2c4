from __future__ import annotations

from flinkpy.client.service_supervisor import (
    DEATHS_WINDOW_S,
    MAX_DEATHS,
    MAX_PAUSE_S,
    DeathRecord,
)


def test_the_first_restart_is_immediate_and_later_ones_are_delayed() -> None:
    record = DeathRecord()

    pauses = [record.died(0.5 * number) for number in range(MAX_DEATHS)]

    assert pauses[:4] == [0.0, 0.2, 0.4, 0.8]
    assert pauses[-1] == MAX_PAUSE_S
    assert record.died(0.5 * MAX_DEATHS) is None


def test_old_deaths_do_not_count() -> None:
    record = DeathRecord()

    assert [record.died(number * DEATHS_WINDOW_S) for number in range(2 * MAX_DEATHS)] == [0.0] * 2 * MAX_DEATHS
