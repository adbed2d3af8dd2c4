import type { VNode } from "preact";
import { Link } from "wouter-preact";
import type { Answer } from "../api/client";
import { Card, Facts, Stat } from "../components/card";
import { LogView } from "../components/log_view";
import { Message, NoData } from "../components/message";
import { PageHead } from "../components/page_head";
import { ProcessMetrics } from "../components/process_metrics";
import { Tabs } from "../components/tabs";
import { ThreadDump } from "../components/thread_dump";
import { bytes, percent, plural, time } from "../format/format";
import { useQuery } from "../state/polling";

type Details = Answer<"/taskmanagers/{taskmanagerid}">;

const TABS = [
  { id: "", title: "Overview" },
  { id: "metrics", title: "Metrics" },
  { id: "logs", title: "Logs" },
  { id: "threads", title: "Threads" },
];

/** One TaskExecutor. */
export default function TaskManager({ taskmanagerid, tab = "" }: { taskmanagerid: string; tab?: string }): VNode {
  const { data, error } = useQuery("/taskmanagers/{taskmanagerid}", { path: { taskmanagerid } });
  if (!data) return <NoData error={error} what="This TaskExecutor" />;
  return (
    <>
      <PageHead title={taskmanagerid} path={[{ href: "/taskmanagers", title: "TaskExecutors" }]} />
      <p class="subtitle">
        <code>{data.path}</code>
        <span>Data port {data.dataPort}</span>
        <span>Last heartbeat {time(data.timeSinceLastHeartbeat)}</span>
        {data.stale && <span class="badge tone-warn">does not answer</span>}
      </p>
      <Tabs
        label="Parts of the TaskExecutor"
        current={tab}
        tabs={TABS.map((one) => ({ ...one, href: `/taskmanagers/${taskmanagerid}${one.id ? `/${one.id}` : ""}` }))}
      />
      <Part tab={tab} details={data} />
    </>
  );
}

function Part({ tab, details }: { tab: string; details: Details }): VNode {
  switch (tab) {
    case "":
      return <Overview details={details} />;
    case "metrics":
      return <ProcessMetrics taskmanagerid={details.id} />;
    case "logs":
      return <LogView owner="/taskmanagers/{taskmanagerid}" taskmanagerid={details.id} />;
    case "threads":
      return <ThreadDump taskmanagerid={details.id} />;
    default:
      return <Message title="There is no such tab" />;
  }
}

function Overview({ details }: { details: Details }): VNode {
  const { metrics, hardware, memoryConfiguration } = details;
  const collector = metrics.garbageCollectors[0];
  const used = details.slotsNumber - details.freeSlots;
  const sizes: [string, number | null | undefined][] = [
    ["Process", memoryConfiguration.totalProcessMemory],
    ["Managed (state backends)", memoryConfiguration.managedMemory],
    ["Network buffers", memoryConfiguration.networkMemory],
    ["Tasks", memoryConfiguration.taskHeap],
  ];
  const configured = sizes
    .filter(([, size]) => (size ?? 0) > 0)
    .map(([name, size]): [string, string] => [name, bytes(size)]);
  return (
    <>
      <dl class="stats">
        <Stat
          label="Memory of the process"
          value={bytes(metrics.heapUsed)}
          detail={
            metrics.heapMax > 0 && metrics.heapUsed >= 0
              ? `${percent(metrics.heapUsed / metrics.heapMax)} of ${bytes(metrics.heapMax)}`
              : undefined
          }
        />
        <Stat label="Slots used" value={`${used} of ${details.slotsNumber}`} />
        <Stat label="CPU cores" value={hardware.cpuCores} />
        <Stat
          label="Memory of the host"
          value={bytes(hardware.physicalMemory)}
          detail={hardware.freeMemory > 0 ? `${bytes(hardware.freeMemory)} free at its start` : undefined}
        />
        {collector && (
          <Stat
            label="Garbage collection"
            value={plural(collector.count, "run")}
            detail={collector.time >= 0 ? `${collector.time} ms in all` : undefined}
          />
        )}
      </dl>
      {configured.length > 0 && (
        <Card title="Configured memory">
          <Facts facts={configured} />
        </Card>
      )}
      <Card title="Slots">
        {details.allocatedSlots.length === 0 ? (
          <p class="muted">All slots are free.</p>
        ) : (
          <ul class="plain">
            {details.allocatedSlots.map((slot, index) => (
              <li key={index}>
                Used by <Link href={`/jobs/${slot.jobId}`}>job {slot.jobId}</Link>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </>
  );
}
