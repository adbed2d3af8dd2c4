"""The statements of Nexmark, ready for one side: with its options, and with the sinks that a run needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

QUERIES = Path(__file__).resolve().parent / "queries"
NAMES = tuple(f"q{number}" for number in range(24))
#: The queries of Nexmark's suite of patterns.
PATTERN_NAMES = tuple(f"cep{number}" for number in range(4))
#: The event time of the first event; any fixed moment would do.
BASE_TIME_MS = 1_436_918_400_000
_SINK = re.compile(
    r"(CREATE TABLE nexmark_(?:q|cep)\d+ \(.*?\n\))(?: PARTITIONED BY \([^)]*\))? WITH \(.*?\n\);", re.DOTALL
)
_OUTPUT = "file://"


@dataclass(frozen=True, slots=True)
class Input:
    """The generated events.

    Attributes:
        events: their number.
        rate: how many there are in a second of event time.
        has_all_fields: True to generate fields that no query reads. Flink's generator always does.
    """

    events: int
    rate: int
    has_all_fields: bool = False


def statements(query: str, given: Input, folder: Path, changes: bool = False) -> str:
    """Returns the text of the tables, the views and the INSERT of a query.

    Args:
        query: its name, such as `q5`.
        given: the events.
        folder: where the query writes files, if it does.
        changes: True to write all changes of the result to `folder`, see `benchmarks.nexmark.changes`; False for the
            sink of the query.
    """
    events = with_input((QUERIES / "events.sql").read_text(), given)
    text = (QUERIES / f"{query}.sql").read_text().replace("${OUTPUT}", f"{_OUTPUT}{folder}")
    if changes:
        text, count = _SINK.subn(
            lambda match: f"{match[1]} WITH (\n  'connector' = 'nexmark-changes',\n  'path' = '{folder}'\n);", text
        )
        if count != 1:
            raise ValueError(f"{query}.sql has {count} tables whose name begins with nexmark_, not one")
    return f"{events}\n{text}"


def with_input(text: str, given: Input) -> str:
    """Returns the text with the options of the events in place of `${EVENTS}` etc."""
    for name, value in (("RATE", given.rate), ("EVENTS", given.events), ("BASE_TIME", BASE_TIME_MS)):
        text = text.replace(f"${{{name}}}", str(value))
    if given.has_all_fields:
        text = text.replace("'connector' = 'nexmark',", "'connector' = 'nexmark',\n  'fields' = 'all',")
    return text


def split(text: str) -> list[str]:
    """Returns the statements, which end with a semicolon at the end of a line, without it and without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [each.strip() for each in re.split(r";[ \t]*$", "\n".join(lines), flags=re.MULTILINE) if each.strip()]
