/** What needs attention now, in words. Pure. */
import type { Schema } from "../api/client";
import { duration, plural } from "../format/format";
import { bottlenecks, HIGH_PERCENT, type VertexLoad } from "./job_model";

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

/** Returns what the vertices of a job that runs tell: what is slow, and whom it holds back. */
export function attentionOfLoads(jobId: string, jobName: string, loads: VertexLoad[]): Attention[] {
  return bottlenecks(loads).map((slow) => {
    const held = loads.filter((load) => slow.inputs.includes(load.id) && (load.backPressuredMax ?? 0) > HIGH_PERCENT);
    const busy = slow.busyMax === null ? "" : ` A subtask of it is busy ${slow.busyMax} % of its time.`;
    return {
      key: `${jobId} ${slow.id} slow`,
      tone: "warn",
      title: `${jobName}: ${slow.name} cannot keep up`,
      detail: `It holds back ${held.map((load) => load.name).join(", ")}, which ${held.length === 1 ? "waits" : "wait"} up to ${Math.max(...held.map((load) => load.backPressuredMax ?? 0))} % of the time.${busy}`,
      href: `/jobs/${jobId}/vertices/${slow.id}`,
    };
  });
}

type Checkpoints = Schema["CheckpointingStatistics"];

/** Returns what the checkpoints of a job tell: the last one failed. */
export function attentionOfCheckpoints(
  jobId: string,
  jobName: string,
  checkpoints: Checkpoints,
  now: number,
): Attention[] {
  const { completed, failed } = checkpoints.latest;
  if (!failed || (completed && completed.id > failed.id)) return [];
  const reason = failed.failure_message ? `: ${failed.failure_message}` : "";
  return [
    {
      key: `${jobId} checkpoint`,
      tone: "bad",
      title: `${jobName}: the last checkpoint failed`,
      detail: `Checkpoint ${failed.id} failed ${duration(now - failed.failure_timestamp)} ago${reason}`,
      href: `/jobs/${jobId}/checkpoints`,
    },
  ];
}
