import type { VNode } from "preact";
import { Card, Facts } from "../components/card";
import { NoData } from "../components/message";
import { OptionTable } from "../components/option_table";
import { useQuery } from "../state/polling";
import type { JobTabProps } from "./job_tabs";

/** How a job is configured: by itself and by its cluster, and what of it acts. */
export default function JobConfiguration({ jobid }: JobTabProps): VNode {
  const { data, error } = useQuery("/jobs/{jobid}/options", { path: { jobid } }, 60_000);
  const { data: config } = useQuery("/jobs/{jobid}/config", { path: { jobid } }, 60_000);
  if (!data) return <NoData error={error} what="The configuration of this job" />;
  const parameters = Object.entries(config?.["execution-config"]["user-config"] ?? {});
  return (
    <>
      {parameters.length > 0 && (
        <Card title="Parameters of the job">
          <Facts facts={parameters.map(([name, value]) => [name, <code key={name}>{value}</code>])} />
        </Card>
      )}
      <Card title="Options">
        <OptionTable options={data.options} hasSource />
      </Card>
    </>
  );
}
