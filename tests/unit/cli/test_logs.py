"""LogView shows the logs of several processes."""

from __future__ import annotations

import pytest

from flinkpy._proto import common_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.cli.logs import MAX_HELD_BYTES, LogView


def chunk(resource_id: str, data: bytes, position: int, end: int | None = None) -> common_pb2.JobLogChunk:
    return common_pb2.JobLogChunk(
        resource_id=resource_id,
        is_known=True,
        has_log=True,
        data=data,
        next_position=position,
        end_position=position if end is None else end,
    )


def test_whole_lines_are_shown_under_the_name_of_their_process(capsys: pytest.CaptureFixture[str]) -> None:
    view = LogView(is_terminal=False)
    view.take(pb.JobLogs(chunks=[chunk("te-1", b"a\nb", 3), chunk("te-2", b"x\n", 2)]))
    view.take(pb.JobLogs(chunks=[chunk("te-1", b"c\n", 5), chunk("te-2", b"", 2)]))
    view.finish()
    assert capsys.readouterr().out == "==> te-1 <==\na\n==> te-2 <==\nx\n==> te-1 <==\nbc\n"
    assert view.positions == {"te-1": 5, "te-2": 2}


def test_a_single_log_has_no_heading_and_may_lack_a_final_newline(capsys: pytest.CaptureFixture[str]) -> None:
    view = LogView(is_terminal=False)
    view.take(pb.JobLogs(chunks=[chunk("te-1", b"a\nno end", 8)]))
    view.finish()
    assert capsys.readouterr().out == "a\nno end\n"


def test_an_unfinished_log_is_read_again_at_once() -> None:
    view = LogView(is_terminal=False)
    view.take(pb.JobLogs(chunks=[chunk("te-1", b"a\n", 2, end=100)]))
    assert view.is_behind
    view.take(pb.JobLogs(chunks=[chunk("te-1", b"", 2, end=100)]))
    assert not view.is_behind, "one that gives nothing is not asked for ever"


def test_a_very_long_line_is_shown_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    view = LogView(is_terminal=False)
    view.take(pb.JobLogs(chunks=[chunk("te-1", b"x" * (MAX_HELD_BYTES + 1), MAX_HELD_BYTES + 1)]))
    assert len(capsys.readouterr().out) == MAX_HELD_BYTES + 1


def test_control_characters_are_replaced_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    answer = pb.JobLogs(chunks=[chunk("te-1", b"\x1b[2Jcolumn\tb\xff\n", 10)])
    LogView(is_terminal=True).take(answer)
    assert capsys.readouterr().out == "?[2Jcolumn\tb\ufffd\n"
    LogView(is_terminal=False).take(answer)
    assert capsys.readouterr().out == "\x1b[2Jcolumn\tb\ufffd\n"


def test_a_process_without_log_or_answer_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = LogView(is_terminal=False)
    silent = common_pb2.JobLogChunk(resource_id="te-1", host="host-a", is_known=True)
    for _ in range(2):
        view.take(pb.JobLogs(chunks=[silent], unreachable=["te-2"]))
    view.finish()
    told = capsys.readouterr().err
    assert told.count("te-1 on host-a has no log file") == 1 and told.count("te-2 does not answer") == 1


def test_a_job_without_any_log_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    view = LogView(is_terminal=False)
    view.take(pb.JobLogs())
    view.finish()
    assert "no registered TaskExecutor has run tasks of this job" in capsys.readouterr().err
