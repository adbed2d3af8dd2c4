import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Schema } from "../api/client";
import { duration, time } from "../format/format";
import { type Column, DataTable } from "./data_table";
import { StateBadge, TaskCounts } from "./state_badge";

export type JobLine = Schema["JobDetails"];

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED"]);

export function hasEnded(job: { state: string }): boolean {
  return ENDED.has(job.state);
}

/** A list of jobs, the latest first. */
export function JobTable(props: {
  label: string;
  jobs: readonly JobLine[];
  empty: string;
  filter?: boolean;
  /** All of them run: no column for their end. */
  areRunning?: boolean;
}): VNode {
  const { areRunning } = props;
  const columns = useMemo<Column<JobLine>[]>(
    () => [
      {
        id: "name",
        title: "Name",
        width: "minmax(12rem, 3fr)",
        sort: (job) => job.name,
        text: (job) => `${job.name} ${job.jid}`,
        render: (job) => (
          <Link href={`/jobs/${job.jid}`} title={job.jid}>
            {job.name || job.jid}
          </Link>
        ),
      },
      { id: "state", title: "State", sort: (job) => job.state, render: (job) => <StateBadge state={job.state} /> },
      { id: "tasks", title: "Tasks", render: (job) => <TaskCounts tasks={job.tasks} /> },
      { id: "start", title: "Started", sort: (job) => job["start-time"], render: (job) => time(job["start-time"]) },
      {
        id: "duration",
        title: "Duration",
        isNumber: true,
        sort: (job) => job.duration,
        render: (job) => duration(job.duration),
      },
      ...(areRunning
        ? []
        : [
            {
              id: "end",
              title: "Ended",
              sort: (job: JobLine) => job["end-time"],
              render: (job: JobLine) => time(job["end-time"]),
            },
          ]),
    ],
    [areRunning],
  );
  return (
    <DataTable
      label={props.label}
      columns={columns}
      rows={props.jobs}
      rowKey={(job) => job.jid}
      initialSort="-start"
      empty={props.empty}
      filter={props.filter}
    />
  );
}
