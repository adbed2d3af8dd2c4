import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Schema } from "../api/client";
import { Stat } from "../components/card";
import { type Column, DataTable } from "../components/data_table";
import { NoData } from "../components/message";
import { PageHead } from "../components/page_head";
import { bytes, duration } from "../format/format";
import { useQuery } from "../state/polling";

type TaskExecutor = Schema["TaskManagerInfo"];

/** All TaskExecutors with their slots and hosts. */
export default function TaskManagers(): VNode {
  const { data, error } = useQuery("/taskmanagers");
  const columns = useMemo<Column<TaskExecutor>[]>(
    () => [
      {
        id: "id",
        title: "TaskExecutor",
        width: "minmax(18rem, 3fr)",
        sort: (one) => one.id,
        text: (one) => `${one.id} ${one.path}`,
        render: (one) => <Link href={`/taskmanagers/${one.id}`}>{one.id}</Link>,
      },
      { id: "path", title: "Address", sort: (one) => one.path, render: (one) => <code>{one.path}</code> },
      {
        id: "slots",
        title: "Slots used",
        isNumber: true,
        sort: (one) => one.slotsNumber - one.freeSlots,
        render: (one) => <SlotsUsed used={one.slotsNumber - one.freeSlots} all={one.slotsNumber} />,
      },
      {
        id: "cores",
        title: "CPU cores",
        isNumber: true,
        sort: (one) => one.hardware.cpuCores,
        render: (one) => one.hardware.cpuCores,
      },
      {
        id: "memory",
        title: "Memory of the host",
        isNumber: true,
        sort: (one) => one.hardware.physicalMemory,
        render: (one) => bytes(one.hardware.physicalMemory),
      },
      {
        id: "heartbeat",
        title: "Last heartbeat",
        isNumber: true,
        sort: (one) => one.timeSinceLastHeartbeat,
        render: (one) => `${duration(Math.max(0, Date.now() - one.timeSinceLastHeartbeat))} ago`,
      },
    ],
    [],
  );
  if (!data) return <NoData error={error} what="The list of TaskExecutors" />;
  const slots = data.taskmanagers.reduce((sum, one) => sum + one.slotsNumber, 0);
  const free = data.taskmanagers.reduce((sum, one) => sum + one.freeSlots, 0);
  return (
    <>
      <PageHead title="TaskExecutors" />
      <dl class="stats">
        <Stat label="TaskExecutors" value={data.taskmanagers.length} />
        <Stat label="Slots used" value={`${slots - free} of ${slots}`} />
      </dl>
      <section class="card">
        <DataTable
          label="TaskExecutors"
          columns={columns}
          rows={data.taskmanagers}
          rowKey={(one) => one.id}
          initialSort="id"
          empty="No TaskExecutor is registered. Start one with: flinkpy taskexecutor"
          filter
        />
      </section>
    </>
  );
}

export function SlotsUsed({ used, all }: { used: number; all: number }): VNode {
  return (
    <span class="slots" title={`${used} of ${all} slots are used`}>
      <meter value={used} max={Math.max(1, all)} />
      {used} of {all}
    </span>
  );
}
