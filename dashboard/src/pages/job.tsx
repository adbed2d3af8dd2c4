import type { VNode } from "preact";
import { Lazy } from "../components/lazy";
import { Message, NoData, NotArchived } from "../components/message";
import { PageHead } from "../components/page_head";
import { StateBadge, TaskCounts } from "../components/state_badge";
import { Tabs } from "../components/tabs";
import { duration, time } from "../format/format";
import { isHistory } from "../state/connection";
import { useQuery } from "../state/polling";
import { JobActions } from "./job_actions";
import { JobDiagnosis } from "./job_diagnosis";
import { JOB_TABS } from "./job_tabs";

/** One job: its head, and the tab that the address names. */
export default function Job({ jobid, tab = "" }: { jobid: string; tab?: string }): VNode {
  const { data: job, error } = useQuery("/jobs/{jobid}", { path: { jobid } });
  if (!job) return <NoData error={error} what="This job" />;
  const current = JOB_TABS.find((one) => one.id === tab);
  return (
    <>
      <PageHead
        title={job.name || jobid}
        path={[{ href: "/jobs", title: "Jobs" }]}
        beside={<StateBadge state={job.state} />}
        actions={<JobActions job={job} />}
      />
      <p class="subtitle">
        <code>{jobid}</code>
        <span>Started {time(job["start-time"])}</span>
        <span>
          {job["end-time"] > 0 ? "Ran" : "Running for"} {duration(job.duration)}
        </span>
        <span>{job["job-type"] === "BATCH" ? "Batch" : "Streaming"}</span>
        <TaskCounts tasks={sumOfTasks(job.vertices)} />
      </p>
      {job.stale && (
        <p class="banner tone-warn" role="status">
          The JobMaster does not answer: what this page shows is {duration(job.age ?? 0)} old.
        </p>
      )}
      {tab === "" && !isHistory.value && <JobDiagnosis job={job} />}
      <Tabs
        label="Parts of the job"
        current={tab}
        tabs={JOB_TABS.filter((one) => !(one.needsCluster && isHistory.value)).map((one) => ({
          ...one,
          href: `/jobs/${jobid}${one.id ? `/${one.id}` : ""}`,
        }))}
      />
      {current?.needsCluster && isHistory.value ? (
        <NotArchived what={current.title} />
      ) : current ? (
        <Lazy key={current.id} load={current.load} jobid={jobid} job={job} />
      ) : (
        <Message title="There is no such tab" />
      )}
    </>
  );
}

function sumOfTasks(vertices: { tasks: Record<string, number> }[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { tasks } of vertices) {
    for (const [state, count] of Object.entries(tasks)) sum[state] = (sum[state] ?? 0) + count;
  }
  return sum;
}
