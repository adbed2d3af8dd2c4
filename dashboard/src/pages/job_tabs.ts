/** The tabs of the page of a job. Each is a component with the properties `job` (its details) and `jobid`. */
import type { VNode } from "preact";
import type { Answer } from "../api/client";

export type JobTabProps = { jobid: string; job: Answer<"/jobs/{jobid}"> };

export type JobTab = {
  /** The last part of the address; empty: the first tab. */
  id: string;
  title: string;
  /** It shows what only a running cluster has. */
  needsCluster?: boolean;
  load: () => Promise<{ default: (props: JobTabProps) => VNode }>;
};

export const JOB_TABS: JobTab[] = [
  { id: "", title: "Graph", load: () => import("./job_graph") },
  { id: "checkpoints", title: "Checkpoints", load: () => import("./job_checkpoints") },
  { id: "exceptions", title: "Exceptions", load: () => import("./job_exceptions") },
  { id: "logs", title: "Logs", needsCluster: true, load: () => import("./job_logs") },
  { id: "jobmaster", title: "JobMaster", needsCluster: true, load: () => import("./job_jobmaster") },
  { id: "timeline", title: "Timeline", load: () => import("./job_timeline") },
  { id: "configuration", title: "Configuration", load: () => import("./job_configuration") },
];
