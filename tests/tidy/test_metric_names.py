"""docs/metrics.md says for every standard metric of Flink that flinkpy has it, or why not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
FLINK = [
    line.split("\t")[1]
    for line in (ROOT / "tests" / "recorded" / "flink_metric_names.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
HAVE, WAIVED = PAGE.split("## Not there, and why")


def names_in_first_column(text: str) -> set[str]:
    cells = [re.split(r"(?<!\\)\|", line)[1] for line in text.splitlines() if line.startswith("| `")]
    return {name.replace("\\", "") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_metric_of_flink_is_there_or_waived_with_a_reason() -> None:
    have, waived = names_in_first_column(HAVE), names_in_first_column(WAIVED)
    assert len(FLINK) == len(set(FLINK)) > 150
    assert [name for name in FLINK if name not in have | waived] == []
    assert sorted(have & waived) == []


def test_waived_metrics_are_metrics_of_flink() -> None:
    assert sorted(names_in_first_column(WAIVED) - set(FLINK)) == []
