"""`cleanup-strategy.*`: when and how often the removal of an ended job's files is retried."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.dispatcher.job_clean_up import clean_up_policy


def delays(number: int, **entries: str) -> list[int | None]:
    configuration = {f"cleanup-strategy.{key.replace('__', '.').replace('_', '-')}": v for key, v in entries.items()}
    policy = clean_up_policy(configuration)
    return [policy.delay_ms(failures) for failures in range(1, number + 1)]


def test_pauses_double_up_to_an_hour_without_a_limit_of_attempts_by_default() -> None:
    assert delays(4) == [1_000, 2_000, 4_000, 8_000]
    assert delays(40)[-1] == 3_600_000


@pytest.mark.parametrize("name", ["exponential-delay", "exponentialdelay"])
def test_exponential_pauses_double_up_to_the_maximum(name: str) -> None:
    settings = {"exponential_delay__initial_backoff": "10 ms", "exponential_delay__max_backoff": "30 ms"}
    assert delays(4, type=name, exponential_delay__attempts="3", **settings) == [10, 20, 30, None]


@pytest.mark.parametrize("name", ["fixed-delay", "fixeddelay"])
def test_fixed_pauses_are_equal(name: str) -> None:
    assert delays(3, type=name, fixed_delay__attempts="2", fixed_delay__delay="5 s") == [5_000, 5_000, None]
    assert delays(1, type=name) == [60_000]


@pytest.mark.parametrize("name", ["none", "disable", "off"])
def test_a_disabled_policy_never_repeats(name: str) -> None:
    assert delays(1, type=name) == [None]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"cleanup-strategy\.type"):
        delays(1, type="sometimes")
