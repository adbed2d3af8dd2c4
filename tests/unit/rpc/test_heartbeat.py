from __future__ import annotations

from flinkpy.rpc.heartbeat import HeartbeatMonitor


def test_a_target_with_a_heartbeat_within_the_timeout_is_alive_and_a_silent_one_is_reported_once() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=50)
    monitor.add_target("a", 0)
    monitor.add_target("b", 0)
    assert monitor.received("a", 40)
    assert monitor.expired(50) == ["b"]
    assert monitor.expired(51) == []
    assert monitor.expired(90) == ["a"]


def test_a_target_whose_calls_fail_is_given_up_at_the_threshold_before_the_timeout() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=10_000, rpc_failure_threshold=2)
    monitor.add_target("a", 0)
    monitor.rpc_failed("a")
    assert monitor.expired(1) == []
    monitor.received("a", 1)
    monitor.rpc_failed("a")
    assert monitor.expired(2) == []
    monitor.rpc_failed("a")
    assert monitor.expired(3) == ["a"]


def test_failed_calls_do_not_count_if_detection_by_calls_is_disabled() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=10_000, rpc_failure_threshold=-1)
    monitor.add_target("a", 0)
    for _ in range(100):
        monitor.rpc_failed("a")
    assert monitor.expired(1) == []


def test_a_heartbeat_of_an_unknown_target_is_refused_and_changes_nothing() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=50)
    assert not monitor.received("ghost", 1)
    assert monitor.targets == []


def test_a_late_heartbeat_never_moves_time_backwards() -> None:
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=50)
    monitor.add_target("a", 0)
    monitor.received("a", 40)
    monitor.received("a", 10)
    assert monitor.expired(80) == []
