/** What needs attention now, in words. Pure. */
import type { Schema } from "../api/client";
import { duration, plural } from "../format/format";

export type Attention = {
  /** Stays the same while the reason does. */
  key: string;
  tone: "bad" | "warn";
  title: string;
  detail: string;
  href: string;
};

/** A TaskExecutor reports every ten seconds by default. */
const STALE_MS = 30_000;
/** A job that takes longer to start waits for something. */
const SLOW_START_MS = 30_000;
/** How long a failed job is news. */
const RECENT_MS = 600_000;

type JobLine = Schema["JobDetails"];

/** Returns what the list of jobs tells. */
export function attentionOfJobs(jobs: readonly JobLine[], freeSlots: number, now: number): Attention[] {
  const found: Attention[] = [];
  for (const job of jobs) {
    const href = `/jobs/${job.jid}`;
    if (job.state === "RESTARTING" || job.state === "FAILING") {
      const title = `${job.name} is ${job.state.toLowerCase()}`;
      found.push({
        key: `${job.jid} restarts`,
        tone: "bad",
        title,
        detail: "Its last failure is under Exceptions.",
        href: `${href}/exceptions`,
      });
    } else if (job.state === "FAILED" && now - job["end-time"] < RECENT_MS) {
      const detail = `${duration(now - job["end-time"])} ago, after ${duration(job.duration)}.`;
      found.push({
        key: `${job.jid} failed`,
        tone: "bad",
        title: `${job.name} has failed`,
        detail,
        href: `${href}/exceptions`,
      });
    }
    const waiting = (job.tasks.scheduled ?? 0) + (job.tasks.created ?? 0);
    if (
      job.state === "RUNNING" &&
      waiting > 0 &&
      (job.tasks.running ?? 0) === 0 &&
      now - job["start-time"] > SLOW_START_MS
    ) {
      const detail =
        freeSlots === 0
          ? "No task slot is free."
          : `${plural(waiting, "task")} ${waiting === 1 ? "waits" : "wait"} to be deployed.`;
      found.push({ key: `${job.jid} waits`, tone: "warn", title: `${job.name} has not started`, detail, href });
    }
  }
  return found;
}

/** Returns what the TaskExecutors tell. */
export function attentionOfTaskExecutors(infos: readonly Schema["TaskManagerInfo"][], now: number): Attention[] {
  return infos
    .filter((info) => now - info.timeSinceLastHeartbeat > STALE_MS)
    .map((info) => ({
      key: `${info.id} stale`,
      tone: "warn",
      title: `TaskExecutor ${info.id} does not report`,
      detail: `Its last heartbeat was ${duration(now - info.timeSinceLastHeartbeat)} ago.`,
      href: `/taskmanagers/${info.id}`,
    }));
}

type Diagnosis = Schema["JobDiagnosisInfo"];

/** What a kind of finding is about. Kinds that only say when output is due need no attention. */
const SUBJECTS: Record<string, string> = {
  SLOTS: "no slots",
  TASKS: "tasks do not run",
  WATERMARK: "a watermark is held back",
  BACK_PRESSURE: "back-pressure",
  SOURCE: "a silent source",
  LATE_RECORDS: "late records",
  CHECKPOINTS: "checkpoints",
};

/** Returns what the cluster says why a job has no output, or less than it could have. */
export function attentionOfDiagnosis(jobName: string, diagnosis: Diagnosis): Attention[] {
  return diagnosis.findings.flatMap((finding, index) => {
    const subject = SUBJECTS[finding.kind];
    if (!subject) return [];
    const base = `/jobs/${diagnosis.jid}`;
    return [
      {
        key: `${diagnosis.jid} ${finding.kind} ${index}`,
        tone: finding.severity === "CAUSE" ? "bad" : "warn",
        title: `${jobName}: ${subject}`,
        detail: finding.sentence,
        href: finding.vertex ? `${base}/vertices/${finding.vertex}` : base,
      },
    ];
  });
}
