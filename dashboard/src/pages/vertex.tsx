import type { VNode } from "preact";
import { Lazy } from "../components/lazy";
import { Message, NoData, NotArchived } from "../components/message";
import { PageHead } from "../components/page_head";
import { StateBadge, TaskCounts } from "../components/state_badge";
import { Tabs } from "../components/tabs";
import { plural } from "../format/format";
import { isHistory } from "../state/connection";
import { useQuery } from "../state/polling";
import { VERTEX_TABS } from "./vertex_tabs";

/** One vertex: its head, and the tab that the address names. */
export default function Vertex({
  jobid,
  vertexid,
  tab = "",
}: {
  jobid: string;
  vertexid: string;
  tab?: string;
}): VNode {
  const { data: job, error } = useQuery("/jobs/{jobid}", { path: { jobid } });
  if (!job) return <NoData error={error} what="This job" />;
  const vertex = job.vertices.find((one) => one.id === vertexid);
  if (!vertex) return <Message title="This job has no such vertex" />;
  const current = VERTEX_TABS.find((one) => one.id === tab);
  const base = `/jobs/${jobid}/vertices/${vertexid}`;
  return (
    <>
      <PageHead
        title={vertex.name}
        path={[
          { href: "/jobs", title: "Jobs" },
          { href: `/jobs/${jobid}`, title: job.name || jobid },
        ]}
        beside={<StateBadge state={vertex.status} />}
      />
      <p class="subtitle">
        <span>{plural(vertex.parallelism, "subtask")}</span>
        <TaskCounts tasks={vertex.tasks} />
      </p>
      <Tabs
        label="Parts of the vertex"
        current={tab}
        tabs={VERTEX_TABS.filter((one) => !(one.needsCluster && isHistory.value)).map((one) => ({
          ...one,
          href: one.id ? `${base}/${one.id}` : base,
        }))}
      />
      {current?.needsCluster && isHistory.value ? (
        <NotArchived what={current.title} />
      ) : current ? (
        <Lazy key={current.id} load={current.load} jobid={jobid} vertexid={vertexid} job={job} vertex={vertex} />
      ) : (
        <Message title="There is no such tab" />
      )}
    </>
  );
}
