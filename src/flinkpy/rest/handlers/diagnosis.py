"""Why a job has no output. This operation is flinkpy's own."""

from __future__ import annotations

from flinkpy.rest.forms.job_details import job_state_of
from flinkpy.rest.handlers.job_inquiries import diagnosis_of
from flinkpy.rest.messages.diagnosis import DiagnosisFinding, JobDiagnosisInfo
from flinkpy.rest.operation import RestCall, operation


@operation(
    "GET",
    "/jobs/:jobid/diagnosis",
    "Returns in words why a job has no output: what holds its watermark back, the vertex that causes back-pressure, "
    "late records, tasks that do not run, silent sources, and checkpoints that fail. Empty for a job that has ended.",
    response=JobDiagnosisInfo,
    is_internal=True,
)
async def job_diagnosis(call: RestCall) -> JobDiagnosisInfo:
    told = await diagnosis_of(call)
    return JobDiagnosisInfo(
        jid=told.job_id,
        state=job_state_of(told.status),
        timestamp=told.timestamp_ms,
        findings=[
            DiagnosisFinding(
                kind=one.kind,
                severity=one.severity,
                sentence=one.sentence,
                advice=one.advice or None,
                vertex=one.vertex_id or None,
                subtask=one.subtask_index if one.vertex_id and one.subtask_index >= 0 else None,
                operator=one.operator_id or None,
                split=one.split_id or None,
            )
            for one in told.findings
        ],
    )
