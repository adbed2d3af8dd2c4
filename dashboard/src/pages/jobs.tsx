import type { VNode } from "preact";
import { JobTable } from "../components/job_table";
import { NoData } from "../components/message";
import { PageHead } from "../components/page_head";
import { useQuery } from "../state/polling";

/** All jobs that the cluster knows. */
export default function Jobs(): VNode {
  const { data, error } = useQuery("/jobs/overview");
  return (
    <>
      <PageHead title="Jobs" />
      {data ? (
        <section class="card">
          <JobTable label="Jobs" jobs={data.jobs} empty="No job has been submitted yet." filter />
        </section>
      ) : (
        <NoData error={error} what="The list of jobs" />
      )}
    </>
  );
}
