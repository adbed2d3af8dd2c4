"""The result of a query: a table, made of the changes that both sides wrote as lines of text.

A line is the kind of the change (+I, -U, +U, -D), then the fields, separated by tabs; `\\N` is null. Each subtask
writes a file. A table is a multiset of rows, so the order of changes does not matter.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

_SHOWN = 3
#: Columns of query 9.
_PRICE = 12
_BID_TIME = 13


class WrongResultError(Exception):
    """A query has another result here than on Flink."""


def table_of(folder: Path) -> Counter[str]:
    """Returns how often the table has each row. Raises: WrongResultError if a row is removed more often than added."""
    rows: Counter[str] = Counter()
    for part in sorted(folder.glob("part-*")):
        with open(part, encoding="utf-8", newline="\n") as lines:
            for line in lines:
                kind, _, row = line.rstrip("\n").partition("\t")
                rows[row] += 1 if kind in ("+I", "+U") else -1
    table = Counter({row: count for row, count in rows.items() if count})
    negative = [row for row, count in table.items() if count < 0]
    if negative:
        raise WrongResultError(f"{len(negative)} rows are removed more often than added, such as {negative[0]!r}")
    return table


def winning_bids(table: Counter[str]) -> Counter[str]:
    """Returns the rows of query 9 with the highest price of each auction.

    Flink 2.3 takes its rank for one that never changes: it adds each new winner and does not remove the last one.
    """
    best: dict[str, tuple[tuple[int, str], str]] = {}
    for row in table:
        fields = row.split("\t")
        # The lowest time wins among equal prices: its complement is the highest.
        rank = int(fields[_PRICE]), "".join(chr(0x10FFFF - ord(character)) for character in fields[_BID_TIME])
        if fields[0] not in best or best[fields[0]][0] < rank:
            best[fields[0]] = rank, row
    return Counter(row for _, row in best.values())


def check_equal(ours: Counter[str], theirs: Counter[str]) -> None:
    """Raises: WrongResultError that shows some of the rows that only one side has."""
    if ours == theirs:
        return
    only_ours, only_theirs = ours - theirs, theirs - ours
    raise WrongResultError(
        f"{ours.total()} rows, and {theirs.total()} on Flink; {only_ours.total()} only here, such as "
        f"{sorted(only_ours)[:_SHOWN]}; {only_theirs.total()} only on Flink, such as {sorted(only_theirs)[:_SHOWN]}"
    )
