import type { VNode } from "preact";
import { Card, Stat } from "../components/card";
import { hasEnded, JobTable } from "../components/job_table";
import { NoData } from "../components/message";
import { PageHead } from "../components/page_head";
import { useQuery } from "../state/polling";

/** The cluster at a glance. */
export default function Overview(): VNode {
  const { data: overview, error } = useQuery("/overview");
  const { data: jobs } = useQuery("/jobs/overview");
  if (!overview || !jobs) return <NoData error={error} what="The overview" />;
  const running = jobs.jobs.filter((job) => !hasEnded(job));
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
        <Stat label="Task slots free" value={`${overview["slots-available"]} of ${overview["slots-total"]}`} />
        <Stat label="TaskExecutors" value={overview.taskmanagers} />
      </dl>
      <Card title="Running jobs">
        <JobTable label="Running jobs" jobs={running} empty="No job is running." />
      </Card>
      <Card title="Ended jobs">
        <JobTable label="Ended jobs" jobs={jobs.jobs.filter(hasEnded)} empty="No job has ended yet." />
      </Card>
    </>
  );
}
