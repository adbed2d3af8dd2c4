import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Parameters } from "../api/client";
import { bytes, count, percent, UNKNOWN } from "../format/format";
import { extended, type History, NO_HISTORY, sampleOf, valuesOf } from "../model/series";
import { useQuery } from "../state/polling";
import { Card } from "./card";
import { type Column, DataTable } from "./data_table";
import { TimePlot } from "./time_plot";

type Metric = { id: string; value?: string };

/** Metrics of this many bytes are shown as sizes. */
const SIZES = /(Memory|Heap|Used|Committed|Max|Size|Bytes)(\.|$)/;
const COUNTS = /(Count|Time|Segments|num|Load|Uptime)/;

/** The metrics of a process that are shown over time: [id, name of the line]. The cluster keeps no history of them. */
const PLOTS: { title: string; lines: [string, string][]; text: (value: number | null) => string }[] = [
  {
    title: "CPU",
    lines: [["Status.JVM.CPU.Load", "part of all cores"]],
    text: (value) => (value === null ? UNKNOWN : percent(value)),
  },
  {
    title: "Memory",
    lines: [
      ["Status.JVM.Memory.Heap.Used", "process"],
      ["Status.JVM.Memory.Direct.MemoryUsed", "Arrow"],
      ["Status.Flink.Memory.Managed.Used", "RocksDB"],
      ["Status.Shuffle.Netty.UsedMemory", "network"],
    ],
    text: bytes,
  },
  {
    title: "Threads and open files",
    lines: [
      ["Status.JVM.Threads.Count", "threads"],
      ["Status.FileDescriptor.Open", "files"],
    ],
    text: count,
  },
  {
    title: "Garbage collection",
    lines: [["Status.JVM.GarbageCollector.All.TimeMsPerSecond", "ms per second"]],
    text: count,
  },
];

/** Names a TaskExecutor, or the JobMaster of a job; without either it is the Dispatcher's process. */
export type ProcessName = { taskmanagerid?: string; jobid?: string };

/** All metrics of a process with their present values, and some of them over time. */
export function ProcessMetrics({ taskmanagerid, jobid }: ProcessName): VNode {
  const path = taskmanagerid
    ? "/taskmanagers/{taskmanagerid}/metrics"
    : jobid
      ? "/jobs/{jobid}/jobmanager/metrics"
      : "/jobmanager/metrics";
  const parameters: Parameters = taskmanagerid ? { path: { taskmanagerid } } : jobid ? { path: { jobid } } : {};
  const { data: names } = useQuery(path, parameters, 30_000);
  const wanted = (names ?? []).map((one) => one.id).join(",");
  const { data } = useQuery(wanted ? path : null, { ...parameters, query: { get: wanted } });
  const rows: Metric[] = data ?? names ?? [];
  const [history, setHistory] = useState<History>(NO_HISTORY);
  useEffect(() => {
    if (data) setHistory((before) => extended(before, Date.now(), sampleOf(data)));
  }, [data]);
  const columns = useMemo<Column<Metric>[]>(
    () => [
      {
        id: "name",
        title: "Metric",
        width: "minmax(20rem, 3fr)",
        sort: (one) => one.id,
        render: (one) => <code>{one.id}</code>,
      },
      {
        id: "value",
        title: "Value",
        isNumber: true,
        sort: (one) => Number(one.value),
        render: (one) => <span title={one.value}>{valueText(one)}</span>,
      },
    ],
    [],
  );
  const plots = PLOTS.filter((plot) => plot.lines.some(([id]) => rows.some((one) => one.id === id)));
  return (
    <>
      {plots.length > 0 && (
        <div class="plots">
          {plots.map(({ title, lines, text }) => (
            <Card key={title} title={title}>
              <TimePlot
                label={`${title} over time`}
                lines={lines.map(([, name]) => name)}
                data={[history.times, ...lines.map(([id]) => valuesOf(history, id))]}
                text={text}
              />
            </Card>
          ))}
        </div>
      )}
      <Card title="Metrics">
        <DataTable
          label="Metrics"
          columns={columns}
          rows={rows}
          rowKey={(one) => one.id}
          initialSort="name"
          filter
          empty="This process has told no metrics."
        />
      </Card>
    </>
  );
}

function valueText({ id, value }: Metric): string {
  const number = Number(value);
  if (value === undefined || value === "" || Number.isNaN(number)) return value ?? "";
  return SIZES.test(id) && !COUNTS.test(id) ? bytes(number) : count(number);
}
