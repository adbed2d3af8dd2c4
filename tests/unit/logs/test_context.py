"""The job and task of a log line."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from flinkpy.logs import context as module
from flinkpy.logs.context import (
    MAX_VERTEX_NAME_CHARS,
    LogContext,
    current_context,
    in_context,
    in_current_context,
    in_no_context,
    set_process_context,
    use_context,
)

JOB = "a" * 32
TASK = LogContext(JOB, "words", "b" * 32, "Map", 1, 4, 2, "Map (2/4)")
OTHER = LogContext("c" * 32, "other")


def run_in_new_context(call: object) -> None:
    contextvars.Context().run(call)  # type: ignore[arg-type]


def test_text_names_job_vertex_subtask_and_attempt() -> None:
    assert TASK.text == f"words {JOB} | Map (2/4)#2"
    assert LogContext(JOB, "words").text == f"words {JOB}" and LogContext(JOB).text == JOB


def test_json_has_flinks_key_of_the_job() -> None:
    assert TASK.fields == {
        "flink-job-id": JOB,
        "flink-job-name": "words",
        "flink-vertex-id": "b" * 32,
        "flink-vertex-name": "Map",
        "flink-subtask-index": 1,
        "flink-parallelism": 4,
        "flink-attempt-number": 2,
    }
    assert LogContext(JOB).fields == {"flink-job-id": JOB}


def test_names_of_users_are_bounded_and_cannot_end_a_field() -> None:
    name = "x | y] z - \n2026\u202e" + "v" * 10_000
    text = LogContext(JOB, name, "v", name, 0, 1).text
    assert len(text) < 2 * MAX_VERTEX_NAME_CHARS + 100 and text.isprintable()
    assert text.count(" | ") == 1 and "]" not in text


def test_coroutines_have_the_context_in_which_they_were_created() -> None:
    async def ask() -> LogContext | None:
        await asyncio.sleep(0)
        return current_context()

    async def both() -> list[LogContext | None]:
        tasks = []
        for context in (TASK, OTHER, None):
            with in_context(context):
                tasks.append(asyncio.create_task(ask()))
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(both()) == [TASK, OTHER, None]


def test_a_pool_works_in_the_context_of_each_caller() -> None:
    with in_context(TASK):
        call = in_current_context(current_context)
    with in_context(OTHER):
        assert call() == TASK and current_context() == OTHER
        assert in_no_context(current_context)() is None


def test_lines_without_another_context_have_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PROCESS", [])
    set_process_context(OTHER)
    assert current_context() == OTHER
    with in_context(TASK):
        assert current_context() == TASK
    set_process_context(None)
    assert current_context() is None


def test_a_thread_gets_the_context_of_the_one_that_starts_it() -> None:
    # The hook itself cannot be removed from a process, so its parts are called here.
    thread, nested = threading.Thread(), threading.Thread()

    def start() -> None:
        use_context(TASK)
        module._on_audit_event("_thread.start_new_thread", (thread._bootstrap, (), None))  # type: ignore[attr-defined]
        module._on_audit_event("open", ("file",))

    run_in_new_context(start)
    assert getattr(thread, module._ATTRIBUTE) == TASK
    with in_context(None):
        module._on_audit_event("_thread.start_joinable_thread", (nested._bootstrap, 1, None))  # type: ignore[attr-defined]
    assert not hasattr(nested, module._ATTRIBUTE)
