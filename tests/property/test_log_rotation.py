"""A reader that follows a log sees every record once and in order, whenever the log is rotated or the process ends."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.logs.context import LogContext
from flinkpy.logs.formats import CONTEXT_ATTRIBUTE, JsonFormatter, TextFormatter
from flinkpy.logs.log_file import LogFile
from flinkpy.logs.reader import LogQuery, LogReader, Position

JOBS = [LogContext(letter * 32, "words | ] ") for letter in "ab"]
WRITES = st.tuples(st.just("write"), st.sampled_from([0, 1]), st.text(max_size=300))
READS = st.tuples(st.just("read"), st.integers(1, 2_000), st.just(""))
ENDS = st.tuples(st.just("restart"), st.just(0), st.just(""))


@given(
    st.sampled_from([TextFormatter, JsonFormatter]),
    st.integers(1, 2_000),
    st.lists(st.one_of(WRITES, WRITES, READS, ENDS), max_size=60),
)
def test_every_record_is_read_once(
    kind: type[logging.Formatter], max_bytes: int, steps: list[tuple[str, int, str]]
) -> None:
    formatter = kind()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "te.log"
        log = LogFile.open(path, max_bytes=max_bytes, max_files=10_000)
        written: list[list[str]] = [[], []]
        found: list[list[str]] = [[], []]
        positions: list[Position | None] = [None, None]

        def read(job: int, max_answer: int) -> bool:
            part = LogReader(path).read(LogQuery(job_id=JOBS[job].job_id), positions[job], max_answer)
            found[job] += [record.message.partition(" ")[0] for record in part.records]
            positions[job] = part.position
            assert not part.is_cut
            return part.is_at_end

        for step, number, text in steps:
            if step == "write":
                name = f"{len(written[number])}"
                record = logging.LogRecord("x", logging.INFO, "f", 1, f"{name} {text}", (), None)
                setattr(record, CONTEXT_ATTRIBUTE, JOBS[number])
                log.write(formatter.format(record) + "\n")
                written[number].append(name)
            elif step == "read":
                read(number % 2, number)
            else:
                log.close()
                log = LogFile.open(path, max_bytes=max_bytes, max_files=10_000)
        log.close()
        for job in (0, 1):
            while not read(job, 1_000_000):
                continue
            last = LogReader(path).tail(LogQuery(job_id=JOBS[job].job_id), 3)
            assert [record.message.partition(" ")[0] for record in last.records] == written[job][-3:]
        assert found == written
