import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { Answer } from "../api/client";
import { Bars } from "../components/bars";
import { Card } from "../components/card";
import { type Column, DataTable } from "../components/data_table";
import { LoadBar, LoadLegend, percentText } from "../components/load_bar";
import { NoData } from "../components/message";
import { StateBadge } from "../components/state_badge";
import { bytes, count, duration, rate, UNKNOWN, watermark } from "../format/format";
import { numberAt, textAt } from "../model/live_table";
import { spreadOf } from "../model/skew";
import { isHistory } from "../state/connection";
import { type Live, useLive } from "../state/live";
import { useQuery } from "../state/polling";
import type { VertexTabProps } from "./vertex_tabs";

type Subtask = {
  index: number;
  status: string;
  attempt: number;
  endpoint: string;
  taskManager: string;
  start: number;
  end: number;
  busy: number | null;
  backPressured: number | null;
  idle: number | null;
  recordsIn: number | null;
  recordsOut: number | null;
  recordsInRate: number | null;
  recordsOutRate: number | null;
  bytesIn: number | null;
  bytesOut: number | null;
  watermark: number | null;
};

function subtasksOf({ columns }: Live): Subtask[] {
  return (columns.status ?? []).map((_, index) => {
    const number = (name: string) => numberAt(columns, name, index);
    return {
      index,
      status: textAt(columns, "status", index),
      attempt: number("attempt") ?? 0,
      endpoint: textAt(columns, "endpoint", index),
      taskManager: textAt(columns, "taskManager", index),
      start: number("start") ?? -1,
      end: number("end") ?? -1,
      busy: number("busy"),
      backPressured: number("backPressured"),
      idle: number("idle"),
      recordsIn: number("recordsIn"),
      recordsOut: number("recordsOut"),
      recordsInRate: number("recordsInRate"),
      recordsOutRate: number("recordsOutRate"),
      bytesIn: number("bytesIn"),
      bytesOut: number("bytesOut"),
      watermark: number("watermark"),
    };
  });
}

/** Returns the subtasks of a job that has ended. Loads and watermarks have ended with it. */
function endedSubtasksOf({ subtasks }: Answer<"/jobs/{jobid}/vertices/{vertexid}">): Subtask[] {
  return subtasks.map(({ metrics, ...one }) => ({
    index: one.subtask,
    status: one.status,
    attempt: one.attempt,
    endpoint: one.endpoint,
    taskManager: one["taskmanager-id"],
    start: one["start-time"],
    end: one["end-time"],
    busy: null,
    backPressured: null,
    idle: null,
    recordsIn: metrics["read-records-complete"] ? metrics["read-records"] : null,
    recordsOut: metrics["write-records-complete"] ? metrics["write-records"] : null,
    recordsInRate: null,
    recordsOutRate: null,
    bytesIn: metrics["read-bytes-complete"] ? metrics["read-bytes"] : null,
    bytesOut: metrics["write-bytes-complete"] ? metrics["write-bytes"] : null,
    watermark: null,
  }));
}

function isSource({ job, vertexid }: VertexTabProps): boolean {
  return !job.plan.nodes.find((node) => node.id === vertexid)?.inputs?.length;
}

/** The subtasks of a vertex. */
export default function VertexSubtasks(props: VertexTabProps): VNode {
  return isHistory.value ? <EndedSubtasks {...props} /> : <LiveSubtasks {...props} />;
}

function EndedSubtasks(props: VertexTabProps): VNode {
  const { jobid, vertexid } = props;
  const { data, error } = useQuery("/jobs/{jobid}/vertices/{vertexid}", { path: { jobid, vertexid } });
  const subtasks = useMemo(() => (data ? endedSubtasksOf(data) : []), [data]);
  if (!data) return <NoData error={error} what="This vertex" />;
  return (
    <>
      <div class="spreads">
        {isSource(props) ? (
          <SpreadCard title="Records out" values={subtasks.map((one) => one.recordsOut)} text={count} />
        ) : (
          <SpreadCard title="Records in" values={subtasks.map((one) => one.recordsIn)} text={count} />
        )}
      </div>
      <Card title="Subtasks">
        <SubtaskTable subtasks={subtasks} now={data.now} hasEnded />
      </Card>
    </>
  );
}

/** The subtasks of a vertex: how evenly they are loaded, and each in a line of a table. */
function LiveSubtasks(props: VertexTabProps): VNode {
  const { jobid, vertexid } = props;
  const { data: live, error } = useLive("/jobs/{jobid}/vertices/{vertexid}/live", { path: { jobid, vertexid } });
  const subtasks = useMemo(() => (live ? subtasksOf(live) : []), [live]);
  if (!live) return <NoData error={error} what="This vertex" />;
  return (
    <>
      <div class="spreads">
        <SpreadCard
          title={isSource(props) ? "Records out" : "Records in"}
          values={subtasks.map((one) => (isSource(props) ? one.recordsOut : one.recordsIn))}
          text={count}
        />
        <SpreadCard
          title="Busy"
          values={subtasks.map((one) => one.busy)}
          text={(value) => percentText(rounded(value))}
        />
        <SpreadCard
          title="Back-pressured"
          values={subtasks.map((one) => one.backPressured)}
          text={(value) => percentText(rounded(value))}
        />
        <WatermarkCard subtasks={subtasks} now={live.now} />
      </div>
      <Card title="Subtasks" aside={<LoadLegend />}>
        <SubtaskTable subtasks={subtasks} now={live.now} />
      </Card>
    </>
  );
}

function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value);
}

function SpreadCard(props: {
  title: string;
  values: (number | null)[];
  text: (value: number | null) => string;
}): VNode {
  const spread = spreadOf(props.values);
  return (
    <section class="card spread" aria-label={`${props.title} over the subtasks`}>
      <header>
        <h2>{props.title}</h2>
        {spread && <span class="muted">skew {Math.round(spread.skew)} %</span>}
      </header>
      {spread ? (
        <>
          <Bars label={props.title} values={props.values} text={props.text} />
          <p class="muted">
            {props.text(spread.min)} – {props.text(spread.max)}, mean {props.text(spread.mean)}
            {spread.max > spread.min && `; most: subtask ${spread.worst}`}
          </p>
        </>
      ) : (
        <p class="muted">Not known: no subtask runs.</p>
      )}
    </section>
  );
}

/** The subtask with the lowest watermark holds back all that follow. */
function WatermarkCard({ subtasks, now }: { subtasks: Subtask[]; now: number }): VNode {
  const without = subtasks.filter((one) => one.watermark === null);
  const marks = subtasks.map((one) => one.watermark);
  const spread = spreadOf(marks);
  const lowest = spread ? marks.indexOf(spread.min) : -1;
  return (
    <section class="card spread" aria-label="Watermarks over the subtasks">
      <header>
        <h2>Watermarks</h2>
      </header>
      {spread ? (
        <>
          <p class="big">{without.length ? "none" : watermark(spread.min, now)}</p>
          <p class="muted">
            {without.length
              ? `Without a watermark: ${nameSome(without)}. The highest is ${watermark(spread.max, now)}.`
              : `Lowest: subtask ${lowest}. The highest is ${duration(spread.max - spread.min)} ahead.`}
          </p>
        </>
      ) : (
        <p class="muted">No subtask has a watermark.</p>
      )}
    </section>
  );
}

function nameSome(subtasks: Subtask[]): string {
  const names = subtasks.slice(0, 4).map((one) => one.index);
  const more = subtasks.length - names.length;
  return `subtask${subtasks.length === 1 ? "" : "s"} ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The columns of what only a running task has. */
const LIVE_COLUMNS = new Set(["load", "busy", "pressured", "inRate", "outRate", "watermark"]);

function SubtaskTable(props: { subtasks: Subtask[]; now: number; hasEnded?: boolean }): VNode {
  const { subtasks, now, hasEnded } = props;
  const columns = useMemo<Column<Subtask>[]>(
    () => [
      {
        id: "index",
        title: "Subtask",
        width: "4.6rem",
        isNumber: true,
        sort: (one) => one.index,
        render: (one) => one.index,
      },
      {
        id: "status",
        title: "State",
        width: "7.5rem",
        sort: (one) => one.status,
        render: (one) => <StateBadge state={one.status} />,
      },
      {
        id: "load",
        title: "Load",
        width: "minmax(6rem, 1.2fr)",
        render: (one) => <LoadBar busy={one.busy} backPressured={one.backPressured} idle={one.idle} />,
      },
      number("busy", "Busy", "4.3rem", (one) => one.busy, percentText),
      number("pressured", "Back-pressured", "7.8rem", (one) => one.backPressured, percentText),
      number("in", "Records in", "minmax(6rem, 1fr)", (one) => one.recordsIn, count),
      number("inRate", "In/s", "5.5rem", (one) => one.recordsInRate, rate),
      number("out", "Records out", "minmax(6rem, 1fr)", (one) => one.recordsOut, count),
      number("outRate", "Out/s", "5.5rem", (one) => one.recordsOutRate, rate),
      number("bytes", "Bytes in", "minmax(5.5rem, 1fr)", (one) => one.bytesIn, bytes),
      number("watermark", "Watermark", "minmax(7rem, 1fr)", (one) => one.watermark, watermark),
      number(
        "attempt",
        "Attempt",
        "5rem",
        (one) => one.attempt,
        (value) => String(value),
      ),
      {
        id: "taskManager",
        title: "TaskExecutor",
        width: "minmax(11rem, 1.4fr)",
        sort: (one) => one.endpoint,
        text: (one) => `${one.endpoint} ${one.taskManager}`,
        render: (one) => <span title={one.taskManager}>{one.endpoint}</span>,
      },
      number(
        "duration",
        "Duration",
        "6rem",
        (one) => (one.start > 0 ? (one.end > 0 ? one.end : now) - one.start : null),
        (value) => (value === null ? UNKNOWN : duration(value)),
      ),
    ],
    [now],
  );
  const shown = useMemo(
    () => (hasEnded ? columns.filter((one) => !LIVE_COLUMNS.has(one.id)) : columns),
    [columns, hasEnded],
  );
  return <DataTable label="Subtasks" columns={shown} rows={subtasks} rowKey={(one) => one.index} filter />;
}

function number(
  id: string,
  title: string,
  width: string,
  value: (one: Subtask) => number | null,
  text: (value: number | null) => string,
): Column<Subtask> {
  return {
    id,
    title,
    width,
    isNumber: true,
    sort: (one) => value(one) ?? Number.NaN,
    render: (one) => text(value(one)),
  };
}
