import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { Card } from "../components/card";
import { type Column, DataTable } from "../components/data_table";
import { NoData } from "../components/message";
import { useQuery } from "../state/polling";
import type { VertexTabProps } from "./vertex_tabs";

type Line = { key: string; subtask: number; name: string; type: string; value: string };

/** The user's accumulators: merged over the vertex, and of each subtask. */
export default function VertexAccumulators({ jobid, vertexid }: VertexTabProps): VNode {
  const path = { jobid, vertexid };
  const merged = useQuery("/jobs/{jobid}/vertices/{vertexid}/accumulators", { path });
  const subtasks = useQuery("/jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators", { path });
  const ofVertex = useMemo(
    () => (merged.data?.["user-accumulators"] ?? []).map((one) => ({ ...one, key: one.name, subtask: -1 })),
    [merged.data],
  );
  const ofSubtasks = useMemo(
    () =>
      (subtasks.data?.subtasks ?? []).flatMap(({ subtask, "user-accumulators": accumulators }) =>
        accumulators.map((one) => ({ ...one, key: `${subtask} ${one.name}`, subtask })),
      ),
    [subtasks.data],
  );
  if (!merged.data) return <NoData error={merged.error} what="The accumulators" />;
  const empty = "No function of this vertex has registered an accumulator.";
  return (
    <>
      <Card title="All subtasks together">
        <DataTable label="Accumulators" columns={COLUMNS} rows={ofVertex} rowKey={(one) => one.key} empty={empty} />
      </Card>
      {ofSubtasks.length > 0 && (
        <Card title="Each subtask">
          <DataTable
            label="Accumulators of each subtask"
            columns={WITH_SUBTASK}
            rows={ofSubtasks}
            rowKey={(one) => one.key}
            filter
          />
        </Card>
      )}
    </>
  );
}

const COLUMNS: Column<Line>[] = [
  { id: "name", title: "Name", width: "minmax(12rem, 2fr)", sort: (one) => one.name, render: (one) => one.name },
  { id: "type", title: "Type", sort: (one) => one.type, render: (one) => one.type },
  {
    id: "value",
    title: "Value",
    width: "minmax(10rem, 3fr)",
    sort: (one) => (one.value.trim() === "" || Number.isNaN(Number(one.value)) ? one.value : Number(one.value)),
    render: (one) => <span title={one.value}>{one.value}</span>,
  },
];
const WITH_SUBTASK: Column<Line>[] = [
  {
    id: "subtask",
    title: "Subtask",
    width: "5rem",
    isNumber: true,
    sort: (one) => one.subtask,
    render: (one) => one.subtask,
  },
  ...COLUMNS,
];
