import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Answer } from "../api/client";
import { AttentionList } from "../components/attention_list";
import { Card, Stat } from "../components/card";
import { hasEnded, type JobLine, JobTable } from "../components/job_table";
import { NoData } from "../components/message";
import { PageHead } from "../components/page_head";
import { type Attention, attentionOfDiagnosis, attentionOfJobs, attentionOfTaskExecutors } from "../model/attention";
import { isHistory } from "../state/connection";
import { useQuery } from "../state/polling";

/** Jobs whose diagnosis is watched: each costs requests. */
const MAX_WATCHED_JOBS = 12;
const SELDOM_MS = 10_000;

/** The cluster at a glance. */
export default function Overview(): VNode {
  const { data: overview, error } = useQuery("/overview");
  const { data: jobs } = useQuery("/jobs/overview");
  const { data: executors } = useQuery(isHistory.value ? null : "/taskmanagers", {}, SELDOM_MS);
  const [ofJobs, setOfJobs] = useState<Record<string, Attention[]>>({});
  if (!overview || !jobs) return <NoData error={error} what="The overview" />;
  if (isHistory.value) return <HistoryOverview overview={overview} jobs={jobs.jobs} />;
  const now = Date.now();
  const running = jobs.jobs.filter((job) => !hasEnded(job));
  const ended = jobs.jobs.filter(hasEnded);
  const watched = running.filter((job) => job.state === "RUNNING").slice(0, MAX_WATCHED_JOBS);
  const attention = [
    ...attentionOfJobs(jobs.jobs, overview["slots-available"], now),
    ...attentionOfTaskExecutors(executors?.taskmanagers ?? [], now),
    ...watched.flatMap((job) => ofJobs[job.jid] ?? []),
  ];
  return (
    <>
      <PageHead title="Overview" />
      <dl class="stats">
        <Stat label="Running jobs" value={overview["jobs-running"]} />
        <Stat
          label="Ended jobs"
          value={overview["jobs-finished"] + overview["jobs-cancelled"] + overview["jobs-failed"]}
          detail={`${overview["jobs-finished"]} finished, ${overview["jobs-cancelled"]} canceled, ${overview["jobs-failed"]} failed`}
        />
        <Stat
          label="Task slots"
          value={known(overview["slots-total"])}
          detail={`${known(overview["slots-available"])} free`}
        />
        <Stat label="TaskExecutors" value={known(overview.taskmanagers)} />
      </dl>
      <Card title="Needs attention">
        {attention.length ? (
          <AttentionList items={attention} />
        ) : (
          <p class="all-well">
            <i aria-hidden="true">✓</i> Nothing: no job fails, restarts or is back-pressured, and all TaskExecutors
            report.
          </p>
        )}
      </Card>
      <Card title="Running jobs">
        <JobTable label="Running jobs" jobs={running} empty="No job is running." areRunning />
      </Card>
      <Card title="Ended jobs">
        <JobTable label="Ended jobs" jobs={ended} empty="No job has ended yet." filter={ended.length > 10} />
      </Card>
      {watched.map((job) => (
        <Watcher key={job.jid} job={job} onChange={setOfJobs} />
      ))}
    </>
  );
}

/** The archived jobs. */
function HistoryOverview(props: { overview: Answer<"/overview">; jobs: JobLine[] }): VNode {
  const { overview, jobs } = props;
  return (
    <>
      <PageHead title="Overview" />
      <p class="subtitle">This is a history server. It shows the archives of jobs that have ended.</p>
      <dl class="stats">
        <Stat label="Finished jobs" value={overview["jobs-finished"]} />
        <Stat label="Canceled jobs" value={overview["jobs-cancelled"]} />
        <Stat label="Failed jobs" value={overview["jobs-failed"]} />
      </dl>
      <Card title="Ended jobs">
        <JobTable label="Ended jobs" jobs={jobs} empty="No job has been archived yet." filter={jobs.length > 10} />
      </Card>
    </>
  );
}

/** The server says -1 while the ResourceManager does not answer. */
function known(value: number): number | string {
  return value < 0 ? "–" : value;
}

/** Watches one job. It shows nothing itself. */
function Watcher(props: {
  job: JobLine;
  onChange: (update: (before: Record<string, Attention[]>) => Record<string, Attention[]>) => void;
}): null {
  const { job, onChange } = props;
  const { data } = useQuery("/jobs/{jobid}/diagnosis", { path: { jobid: job.jid } }, SELDOM_MS);
  useEffect(() => {
    if (data) onChange((before) => ({ ...before, [job.jid]: attentionOfDiagnosis(job.name, data) }));
  }, [job.jid, job.name, data, onChange]);
  return null;
}
