import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { Card } from "../components/card";
import { type Column, DataTable } from "../components/data_table";
import { JobGraphView } from "../components/job_graph_view";
import { LoadBar, percentText } from "../components/load_bar";
import { StateBadge, TaskCounts } from "../components/state_badge";
import { VertexDrawer } from "../components/vertex_drawer";
import { bytes, count, duration, rate, watermark } from "../format/format";
import { loadsOf, type VertexLoad } from "../model/job_model";
import { isHistory } from "../state/connection";
import { useLive } from "../state/live";
import type { JobTabProps } from "./job_tabs";

/** Values older than this are marked. The server's cache alone makes them a few seconds old. */
const OLD_MS = 10_000;

/** The columns of what only a running job has. */
const LIVE_COLUMNS = new Set(["load", "busy", "busyMax", "pressured", "inRate", "outRate", "watermark"]);

/** The graph of the job with its load, and its vertices as a table. */
export default function JobGraph({ job, jobid }: JobTabProps): VNode {
  const { data: live } = useLive(isHistory.value ? null : "/jobs/{jobid}/live", { path: { jobid } });
  const [selected, setSelected] = useState<string | null>(null);
  const loads = useMemo(() => loadsOf(job, isHistory.value ? null : (live?.columns ?? {})), [job, live]);
  const chosen = loads.find((load) => load.id === selected);
  return (
    <>
      {live && live.age > OLD_MS && !job.stale && (
        <p class="banner tone-warn" role="status">
          The JobMaster does not answer: these values are {duration(live.age)} old.
        </p>
      )}
      <div class={chosen ? "graph-and-drawer" : ""}>
        <section class="card" aria-label="Graph of the job">
          <JobGraphView plan={job.plan} loads={loads} selected={selected} onSelect={setSelected} />
        </section>
        {chosen && <VertexDrawer job={job} load={chosen} onClose={() => setSelected(null)} />}
      </div>
      <Card title="Vertices">
        <VertexTable jobid={jobid} loads={loads} selected={selected} />
      </Card>
    </>
  );
}

function VertexTable(props: { jobid: string; loads: VertexLoad[]; selected: string | null }): VNode {
  const { jobid } = props;
  const columns = useMemo<Column<VertexLoad>[]>(
    () => [
      {
        id: "name",
        title: "Vertex",
        width: "minmax(14rem, 3fr)",
        sort: (load) => load.name,
        render: (load) => (
          <Link href={`/jobs/${jobid}/vertices/${load.id}`} title={load.name}>
            {load.name}
          </Link>
        ),
      },
      {
        id: "status",
        title: "State",
        width: "minmax(6.5rem, 0.8fr)",
        sort: (load) => load.status,
        render: (load) => <StateBadge state={load.status} />,
      },
      {
        id: "tasks",
        title: "Subtasks",
        width: "minmax(5rem, 0.6fr)",
        sort: (load) => load.parallelism,
        render: (load) => <TaskCounts tasks={load.tasks} />,
      },
      {
        id: "load",
        title: "Load",
        width: "minmax(6rem, 1fr)",
        sort: (load) => load.busy ?? -1,
        render: (load) => <LoadBar busy={load.busy} backPressured={load.backPressured} idle={load.idle} />,
      },
      number("busy", "Busy, mean", (load) => load.busy, percentText, "6rem"),
      number("busyMax", "Busy, worst", (load) => load.busyMax, percentText, "6.2rem"),
      number("pressured", "Back-pressured, worst", (load) => load.backPressuredMax, percentText, "10rem"),
      number("in", "Records in", (load) => load.recordsIn, count),
      number("inRate", "In/s", (load) => load.recordsInRate, rate, "5.5rem"),
      number("out", "Records out", (load) => load.recordsOut, count),
      number("outRate", "Out/s", (load) => load.recordsOutRate, rate, "5.5rem"),
      number("bytes", "Bytes in", (load) => load.bytesIn, bytes),
      number("watermark", "Watermark", (load) => load.watermark, watermark, "minmax(8rem, 1.4fr)"),
    ],
    [jobid],
  );
  return (
    <DataTable
      label="Vertices"
      columns={isHistory.value ? columns.filter((one) => !LIVE_COLUMNS.has(one.id)) : columns}
      rows={props.loads}
      rowKey={(load) => load.id}
      isSelected={(load) => load.id === props.selected}
    />
  );
}

function number(
  id: string,
  title: string,
  value: (load: VertexLoad) => number | null,
  text: (value: number | null) => string,
  width = "minmax(6rem, 0.8fr)",
): Column<VertexLoad> {
  return {
    id,
    title,
    isNumber: true,
    width,
    sort: (load) => value(load) ?? Number.NaN,
    render: (load) => text(value(load)),
  };
}
