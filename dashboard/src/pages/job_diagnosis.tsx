import type { VNode } from "preact";
import { Link } from "wouter-preact";
import type { Answer, Schema } from "../api/client";
import { hasEnded } from "../components/job_table";
import { useQuery } from "../state/polling";

type Finding = Schema["DiagnosisFinding"];

/** The diagnosis asks all TaskExecutors, and its shares are over a minute. */
const INTERVAL_MS = 10_000;

const TITLES: Record<string, string> = {
  STATE: "State",
  SLOTS: "Slots",
  TASKS: "Tasks",
  WATERMARK: "Watermark",
  EVENT_TIME: "Event time",
  SOURCE: "Source",
  BACK_PRESSURE: "Back-pressure",
  LATE_RECORDS: "Late records",
  SKIPPED_RECORDS: "Skipped records",
  NO_RECORDS_OUT: "No records out",
  CHECKPOINTS: "Checkpoints",
  METRICS: "Metrics",
};

/** Why a job has no output, in words; nothing if it runs as it should. */
export function JobDiagnosis({ job }: { job: Answer<"/jobs/{jobid}"> }): VNode | null {
  const parameters = { path: { jobid: job.jid } };
  const { data } = useQuery(hasEnded(job) ? null : "/jobs/{jobid}/diagnosis", parameters, INTERVAL_MS);
  if (!data || data.findings.length === 0) return null;
  const isCause = data.findings.some((finding) => finding.severity === "CAUSE");
  return (
    <section class={`card diagnosis tone-${isCause ? "warn" : "active"}`} aria-label="Why there may be no output">
      <header>
        <h2>{isCause ? "What keeps output back" : "Worth a look"}</h2>
      </header>
      <ul>
        {data.findings.map((finding) => (
          <FindingLine key={finding.sentence} jobid={job.jid} finding={finding} />
        ))}
      </ul>
    </section>
  );
}

function FindingLine({ jobid, finding }: { jobid: string; finding: Finding }): VNode {
  return (
    <li class={finding.severity === "CAUSE" ? "tone-warn" : "tone-quiet"}>
      <span class="count">{TITLES[finding.kind] ?? finding.kind}</span>
      <div>
        <p>
          {finding.sentence} <Place jobid={jobid} finding={finding} />
        </p>
        {finding.advice && <p class="muted">{finding.advice}</p>}
      </div>
    </li>
  );
}

function Place({ jobid, finding }: { jobid: string; finding: Finding }): VNode | null {
  if (finding.kind === "CHECKPOINTS") return <Link href={`/jobs/${jobid}/checkpoints`}>Checkpoints</Link>;
  if (finding.kind === "STATE") return <Link href={`/jobs/${jobid}/exceptions`}>Exceptions</Link>;
  return finding.vertex ? <Link href={`/jobs/${jobid}/vertices/${finding.vertex}`}>Show the vertex</Link> : null;
}
