import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { bytes, count } from "../format/format";
import { useQuery } from "../state/polling";
import { Card } from "./card";
import { type Column, DataTable } from "./data_table";

type Metric = { id: string; value?: string };

/** Metrics of this many bytes are shown as sizes. */
const SIZES = /(Memory|Heap|Used|Committed|Max|Size|Bytes)(\.|$)/;
const COUNTS = /(Count|Time|Segments|num|Load|Uptime)/;

/** All metrics of a process with their present values. */
export function ProcessMetrics({ taskmanagerid }: { taskmanagerid?: string }): VNode {
  const path = taskmanagerid ? "/taskmanagers/{taskmanagerid}/metrics" : "/jobmanager/metrics";
  const parameters = taskmanagerid ? { path: { taskmanagerid } } : {};
  const { data: names } = useQuery(path, parameters, 30_000);
  const wanted = (names ?? []).map((one) => one.id).join(",");
  const { data } = useQuery(wanted ? path : null, { ...parameters, query: { get: wanted } });
  const rows: Metric[] = data ?? names ?? [];
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
  return (
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
  );
}

function valueText({ id, value }: Metric): string {
  const number = Number(value);
  if (value === undefined || value === "" || Number.isNaN(number)) return value ?? "";
  return SIZES.test(id) && !COUNTS.test(id) ? bytes(number) : count(number);
}
