"""Warnings about deprecated keys and keys without effect."""

from __future__ import annotations

import logging

import pytest

from flinkpy.configuration import key_notices
from flinkpy.configuration.key_notices import keys_without_effect, notices, warn_of_keys


@pytest.fixture(autouse=True)
def _nothing_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_notices, "_seen", set())


def test_deprecated_key_is_named_with_its_successor() -> None:
    assert notices({"state.backend": "rocksdb"}) == ["option `state.backend` is deprecated; use `state.backend.type`"]
    assert notices({"state.backend.local-recovery": "true"}) == [
        (
            "option `state.backend.local-recovery` is deprecated; use "
            "`execution.checkpointing.local-backup.enabled` and `execution.state-recovery.from-local`"
        )
    ]


def test_an_overridden_deprecated_key_is_reported_as_ignored() -> None:
    assert notices({"state.backend": "rocksdb", "state.backend.type": "hashmap"}) == [
        (
            "option `state.backend` is deprecated and ignored, because `state.backend.type` is set; use "
            "`state.backend.type`"
        )
    ]


def test_a_fallback_key_is_not_reported_as_deprecated() -> None:
    assert notices({"process.working-dir": "/tmp/w"}) == []


def test_keys_without_effect_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    entries = {
        "rest.retry.delay": "1 s",
        "pipeline.object-reuse": "true",
        "execution.checkpointing.unaligned.interruptible-timers.enabled": "true",
        "parallelism.default": "2",
        "taskmanager.memory.process.size": "1g",
        "python.fn-execution.bundle.size": "1",
        "$internal.deployment.config-dir": "/tmp",
    }
    with caplog.at_level(logging.WARNING):
        warn_of_keys(entries)
        warn_of_keys(entries)

    assert [record.getMessage() for record in caplog.records] == [
        (
            "these options of Flink have no effect in flinkpy: "
            "execution.checkpointing.unaligned.interruptible-timers.enabled, pipeline.object-reuse, rest.retry.delay"
        ),
        (
            "these options have no effect, because flinkpy has no JVM and no separate Python worker processes: "
            "python.fn-execution.bundle.size"
        ),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "metrics.latency.interval",
        "metrics.reporter.mine.path",
        "pipeline.global-job-parameters.threads",
        "state.backend",
        "taskmanager.network.memory.min",
    ],
)
def test_keys_with_effect_are_not_reported(key: str) -> None:
    assert keys_without_effect([key]) == []
