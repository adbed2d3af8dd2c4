"""A measured comparison, and how it is printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Result:
    """Ours beside the peer, from one run.

    `ratio` is always "how many times better we are": for rates ours / peer, for durations peer / ours.
    """

    name: str
    ours: float
    peer: float | None
    unit: str
    peer_name: str
    ratio: float | None
    bar: float | None = None
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.bar is None:
            return None
        return self.ratio is not None and self.ratio >= self.bar

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reached": self.reached}


def rate(name: str, ours: float, peer: float, unit: str, peer_name: str, bar: float | None, note: str = "") -> Result:
    """A result where more is better."""
    return Result(name, ours, peer, unit, peer_name, ours / peer, bar, note)


def print_results(results: list[Result]) -> None:
    table = Table(title="flinkpy beside its peers, one run on this machine")
    for column, justify in (("benchmark", "left"), ("ours", "right"), ("peer", "right"), ("unit", "left")):
        table.add_column(column, justify=justify)
    table.add_column("ratio", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("peer is", justify="left")
    table.add_column("note", justify="left")
    marks = {True: "[green]", False: "[red]", None: ""}
    for result in results:
        mark = marks[result.reached]
        table.add_row(
            result.name,
            _number(result.ours),
            _number(result.peer),
            result.unit,
            f"{mark}{_number(result.ratio)}x" if result.ratio is not None else "",
            f"{_number(result.bar)}x" if result.bar is not None else "",
            result.peer_name,
            result.note,
        )
    Console(width=140).print(table)


def _number(value: float | None) -> str:
    if value is None or value != value:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
