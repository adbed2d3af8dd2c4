import type { VNode } from "preact";
import { type Answer, change } from "../api/client";
import { hasEnded } from "../components/job_table";
import { refresh, useQuery } from "../state/polling";
import { fail, succeed } from "../state/toasts";

/** The buttons that steer a job. */
export function JobActions({ job }: { job: Answer<"/jobs/{jobid}"> }): VNode | null {
  const { data: config } = useQuery("/config", {}, 60_000);
  if (hasEnded(job) || !config?.features["web-cancel"]) return null;
  async function cancel(): Promise<void> {
    if (!window.confirm(`Cancel the job “${job.name}”? It ends without a savepoint.`)) return;
    try {
      await change("PATCH", "/jobs/{jobid}", { path: { jobid: job.jid }, query: { mode: "cancel" } });
      succeed(`${job.name} is being canceled`);
      refresh();
    } catch (error) {
      fail(`${job.name} was not canceled`, error);
    }
  }
  return (
    <button type="button" class="button danger" onClick={() => void cancel()}>
      Cancel
    </button>
  );
}
