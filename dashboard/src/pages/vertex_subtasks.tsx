import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { Schema } from "../api/client";
import { type Column, DataTable } from "../components/data_table";
import { NoData } from "../components/message";
import { StateBadge } from "../components/state_badge";
import { bytes, count, duration, time } from "../format/format";
import { useQuery } from "../state/polling";
import type { VertexTabProps } from "./vertex_tabs";

type Subtask = Schema["SubtaskExecutionAttemptDetailsInfo"];

/** The subtasks of a vertex. */
export default function VertexSubtasks({ jobid, vertexid }: VertexTabProps): VNode {
  const { data, error } = useQuery("/jobs/{jobid}/vertices/{vertexid}", { path: { jobid, vertexid } });
  const columns = useMemo<Column<Subtask>[]>(
    () => [
      { id: "subtask", title: "Subtask", isNumber: true, sort: (one) => one.subtask, render: (one) => one.subtask },
      { id: "status", title: "State", sort: (one) => one.status, render: (one) => <StateBadge state={one.status} /> },
      {
        id: "in",
        title: "Records in",
        isNumber: true,
        sort: (one) => one.metrics["read-records"],
        render: (one) => count(one.metrics["read-records"]),
      },
      {
        id: "out",
        title: "Records out",
        isNumber: true,
        sort: (one) => one.metrics["write-records"],
        render: (one) => count(one.metrics["write-records"]),
      },
      {
        id: "bytes",
        title: "Bytes in",
        isNumber: true,
        sort: (one) => one.metrics["read-bytes"],
        render: (one) => bytes(one.metrics["read-bytes"]),
      },
      { id: "attempt", title: "Attempt", isNumber: true, sort: (one) => one.attempt, render: (one) => one.attempt },
      { id: "endpoint", title: "TaskExecutor", sort: (one) => one.endpoint, render: (one) => one.endpoint },
      { id: "start", title: "Started", sort: (one) => one["start-time"], render: (one) => time(one["start-time"]) },
      {
        id: "duration",
        title: "Duration",
        isNumber: true,
        sort: (one) => one.duration,
        render: (one) => duration(one.duration),
      },
    ],
    [],
  );
  if (!data) return <NoData error={error} what="This vertex" />;
  return (
    <section class="card">
      <DataTable label="Subtasks" columns={columns} rows={data.subtasks} rowKey={(one) => one.subtask} filter />
    </section>
  );
}
