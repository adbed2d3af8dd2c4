"""Body of the operation that says why a job has no output. It is flinkpy's own."""

from __future__ import annotations

import msgspec


class DiagnosisFinding(msgspec.Struct, kw_only=True):
    """One reason, in words.

    `severity` is CAUSE if it explains missing output and NOTE if it may. The place may be a whole vertex, one of its
    subtasks, an operator of the chain, and a split of a source; `null` stands for no place.
    """

    kind: str
    severity: str
    sentence: str
    advice: str | None
    vertex: str | None
    subtask: int | None
    operator: str | None
    split: str | None


class JobDiagnosisInfo(msgspec.Struct, kw_only=True):
    """Why a job has no output, or less than it could have: the most important finding first."""

    jid: str
    state: str
    timestamp: int
    findings: list[DiagnosisFinding]
