from __future__ import annotations

from random import Random

import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.jobmaster.failover.restart_strategy import (
    ExponentialDelayOptions,
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    NoRestartStrategy,
)
from flinkpy.jobmaster.options import restart_strategy


def exponential(**options):
    values = {"jitter_factor": 0.0, **options}
    return ExponentialDelayRestartStrategy(ExponentialDelayOptions(**values), Random(0))


def test_none_never_restarts():
    strategy = NoRestartStrategy()
    strategy.notify_failure(0)
    assert not strategy.can_restart(0)


def test_fixed_delay_restarts_as_often_as_it_may_in_the_life_of_the_job():
    strategy = FixedDelayRestartStrategy(attempts=2, delay_ms=70)
    answers = []
    for now_ms in (0, 10, 1_000_000):
        strategy.notify_failure(now_ms)
        answers.append(strategy.can_restart(now_ms))
    assert answers == [True, True, False]
    assert strategy.backoff_ms(0) == 70


def test_failure_rate_allows_exactly_max_failures_within_an_interval():
    strategy = FailureRateRestartStrategy(max_failures_per_interval=2, interval_ms=100, delay_ms=7)
    for now_ms in (0, 1):
        strategy.notify_failure(now_ms)
        assert strategy.can_restart(now_ms)
    strategy.notify_failure(100)
    assert not strategy.can_restart(100)  # three failures within 100 ms, both ends included
    assert strategy.backoff_ms(100) == 7


def test_failure_rate_ignores_failures_before_the_interval():
    strategy = FailureRateRestartStrategy(max_failures_per_interval=2, interval_ms=100, delay_ms=7)
    for now_ms in (0, 1, 101):
        strategy.notify_failure(now_ms)
    assert strategy.can_restart(101)


def test_exponential_delay_grows_by_the_multiplier_up_to_the_maximum():
    strategy = exponential(initial_backoff_ms=100, max_backoff_ms=500, backoff_multiplier=2.0)
    now_ms, delays = 0, []
    for _ in range(5):
        assert strategy.notify_failure(now_ms)
        delays.append(strategy.backoff_ms(now_ms))
        now_ms += delays[-1] + 1
    assert delays == [100, 200, 400, 500, 500]


def test_exponential_delay_counts_failures_before_the_restart_as_one():
    strategy = exponential(initial_backoff_ms=100)
    assert strategy.notify_failure(0)
    assert not strategy.notify_failure(60)
    assert strategy.backoff_ms(60) == 40
    assert not strategy.notify_failure(100)
    assert strategy.notify_failure(101)
    assert strategy.backoff_ms(101) == 150


def test_exponential_delay_is_reset_after_a_long_time_without_failure():
    strategy = exponential(initial_backoff_ms=100, reset_backoff_threshold_ms=1_000)
    strategy.notify_failure(0)
    strategy.notify_failure(200)
    assert strategy.backoff_ms(200) == 150
    strategy.notify_failure(350 + 999)
    assert strategy.backoff_ms(350 + 999) == 225
    next_restart_ms = 350 + 999 + 225
    strategy.notify_failure(next_restart_ms + 1_000)
    assert strategy.backoff_ms(next_restart_ms + 1_000) == 100


def test_exponential_delay_gives_up_after_its_attempts():
    strategy = exponential(initial_backoff_ms=1, attempts_before_reset_backoff=2)
    answers = []
    for now_ms in (0, 100, 200):
        strategy.notify_failure(now_ms)
        answers.append(strategy.can_restart(now_ms))
    assert answers == [True, True, False]


def test_exponential_delay_jitters_both_ways_but_never_below_the_initial_delay():
    options = ExponentialDelayOptions(initial_backoff_ms=1_000, backoff_multiplier=2.0, jitter_factor=0.25)
    strategy = ExponentialDelayRestartStrategy(options, Random(1))
    strategy.notify_failure(0)
    assert 1_000 <= strategy.backoff_ms(0) <= 1_250
    delays = set()
    for seed in range(50):
        strategy = ExponentialDelayRestartStrategy(options, Random(seed))
        strategy.notify_failure(0)
        strategy.notify_failure(5_000)
        delays.add(strategy.backoff_ms(5_000))
    assert min(delays) >= 1_500 and max(delays) <= 2_500
    assert min(delays) < 2_000 < max(delays)


def test_exponential_delay_survives_a_million_failures():
    strategy = exponential(max_backoff_ms=60_000)
    strategy._attempt = 10**6
    strategy.notify_failure(0)
    assert strategy.backoff_ms(0) == 60_000


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, "none"),
        ({"restart-strategy.type": "off"}, "none"),
        ({"restart-strategy.type": "fixed-delay"}, "fixed-delay(attempts=1, delay=1000 ms)"),
        (
            {"restart-strategy.type": "failure-rate"},
            "failure-rate(max-failures-per-interval=1, failure-rate-interval=60000 ms, delay=1000 ms)",
        ),
        (
            {"restart-strategy.type": "exponential-delay"},
            "exponential-delay(initial-backoff=1000 ms, max-backoff=60000 ms, backoff-multiplier=1.5)",
        ),
        (
            {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "7"},
            "fixed-delay(attempts=7, delay=1000 ms)",
        ),
    ],
)
def test_the_strategy_of_the_configuration_has_flinks_defaults(entries, expected):
    assert str(restart_strategy(Configuration.from_dict(entries), Random(0))) == expected
