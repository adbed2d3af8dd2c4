import type { VNode } from "preact";
import { hasEnded } from "../components/job_table";
import { Message } from "../components/message";
import { ProcessMetrics } from "../components/process_metrics";
import { ThreadDump } from "../components/thread_dump";
import type { JobTabProps } from "./job_tabs";

/** The process that runs the job: its metrics over time, those of the job, and the stacks of its threads. */
export default function JobJobMaster({ jobid, job }: JobTabProps): VNode {
  if (hasEnded(job)) return <Message title="The JobMaster has ended">A job has it only while it runs.</Message>;
  return (
    <>
      <ProcessMetrics jobid={jobid} />
      <ThreadDump jobid={jobid} />
    </>
  );
}
