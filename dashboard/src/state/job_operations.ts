/** Savepoints and stops that this page has started. They go on while their dialog is closed. */
import { signal } from "@preact/signals";
import { type Answer, ApiError, change, get } from "../api/client";
import { noteError, refresh } from "./polling";
import { fail, succeed } from "./toasts";

export type JobOperation = {
  jobid: string;
  jobName: string;
  kind: "savepoint" | "stop";
  startedMs: number;
  triggerId: string;
  state: "running" | "done" | "failed";
  /** Where the savepoint is. */
  location?: string;
  failure?: string;
};

type SavepointStatus = Answer<"/jobs/{jobid}/savepoints/{triggerid}">;

const POLL_MS = 700;

/** The last operation of each job. */
export const jobOperations = signal<Record<string, JobOperation>>({});

function update(operation: JobOperation): void {
  jobOperations.value = { ...jobOperations.value, [operation.jobid]: operation };
}

/** Starts an operation and follows it to its end. */
export async function startOperation(
  job: { jid: string; name: string },
  kind: "savepoint" | "stop",
  settings: { directory: string; drain: boolean; format: string },
): Promise<void> {
  const directory = settings.directory.trim() || null;
  const what = kind === "savepoint" ? "The savepoint" : "The stop";
  const path = { jobid: job.jid };
  try {
    const answer =
      kind === "savepoint"
        ? await change(
            "POST",
            "/jobs/{jobid}/savepoints",
            { path },
            {
              "target-directory": directory,
              "cancel-job": false,
              formatType: settings.format,
            },
          )
        : await change(
            "POST",
            "/jobs/{jobid}/stop",
            { path },
            {
              targetDirectory: directory,
              drain: settings.drain,
              formatType: settings.format,
            },
          );
    const operation: JobOperation = {
      jobid: job.jid,
      jobName: job.name,
      kind,
      startedMs: Date.now(),
      triggerId: answer["request-id"],
      state: "running",
    };
    update(operation);
    void follow(operation);
  } catch (error) {
    fail(`${what} of ${job.name} did not begin`, error);
  }
}

async function follow(operation: JobOperation): Promise<void> {
  const what = operation.kind === "savepoint" ? "The savepoint" : "The stop";
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    let status: SavepointStatus;
    try {
      const path = { jobid: operation.jobid, triggerid: operation.triggerId };
      status = await get("/jobs/{jobid}/savepoints/{triggerid}", { path });
    } catch (error) {
      if (noteError(error).status === 0) continue; // the cluster may come back
      update({ ...operation, state: "failed", failure: (error as ApiError).message });
      fail(`${what} of ${operation.jobName} cannot be followed`, error);
      return;
    }
    if (status.status.id !== "COMPLETED") continue;
    const failure = status.operation?.["failure-cause"];
    if (failure) {
      update({ ...operation, state: "failed", failure: failure["stack-trace"] });
      fail(`${what} of ${operation.jobName} failed`, new ApiError(500, failure["stack-trace"].split("\n")[0] ?? ""));
    } else {
      update({ ...operation, state: "done", location: status.operation?.location ?? "" });
      succeed(
        operation.kind === "savepoint"
          ? `The savepoint of ${operation.jobName} is complete`
          : `${operation.jobName} has stopped with a savepoint`,
      );
    }
    refresh();
    return;
  }
}
