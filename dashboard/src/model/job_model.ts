/** What the page of a job derives from its details and its live table. Pure. */
import type { Schema } from "../api/client";
import { type Columns, numberAt, textAt } from "./live_table";

export type Job = Schema["JobDetailsInfo"];

/** Above this share of its time, in percent, a vertex is highly back-pressured, as in Flink. */
export const HIGH_PERCENT = 50;
/** Above this a vertex is as busy as it can be: with a little less a batch now and then is late. */
export const BUSY_PERCENT = 80;

export type VertexLoad = {
  id: string;
  name: string;
  parallelism: number;
  status: string;
  tasks: Record<string, number>;
  /** Percent; null: not known. The mean over the subtasks, and the worst of them. */
  busy: number | null;
  busyMax: number | null;
  backPressured: number | null;
  backPressuredMax: number | null;
  idle: number | null;
  recordsIn: number | null;
  recordsOut: number | null;
  bytesIn: number | null;
  bytesOut: number | null;
  recordsInRate: number | null;
  recordsOutRate: number | null;
  watermark: number | null;
  watermarkMax: number | null;
  /** The ids of the vertices that it reads from. */
  inputs: string[];
};

/**
 * Returns the vertices with their loads; before the first poll all of the latter are null.
 *
 * @param columns null: there is no live table, because the job has ended. The details have the final counts.
 */
export function loadsOf(job: Job, columns: Columns | null): VertexLoad[] {
  const inputs = new Map(job.plan.nodes.map((node) => [node.id, (node.inputs ?? []).map((input) => input.id)]));
  return job.vertices.map((vertex, row) => {
    const number = (name: string) => (columns === null ? null : numberAt(columns, name, row));
    const final = (name: "records" | "bytes", verb: "read" | "write") =>
      columns === null && vertex.metrics[`${verb}-${name}-complete`] ? vertex.metrics[`${verb}-${name}`] : null;
    const tasks: Record<string, number> = {};
    for (const name of Object.keys(columns ?? {})) {
      if (name.startsWith("tasks.")) tasks[name.slice(6)] = number(name) ?? 0;
    }
    return {
      id: vertex.id,
      name: vertex.name,
      parallelism: vertex.parallelism,
      status: textAt(columns ?? {}, "status", row) || vertex.status,
      tasks: Object.keys(tasks).length ? tasks : vertex.tasks,
      busy: number("busy"),
      busyMax: number("busyMax"),
      backPressured: number("backPressured"),
      backPressuredMax: number("backPressuredMax"),
      idle: number("idle"),
      recordsIn: final("records", "read") ?? number("recordsIn"),
      recordsOut: final("records", "write") ?? number("recordsOut"),
      bytesIn: final("bytes", "read") ?? number("bytesIn"),
      bytesOut: final("bytes", "write") ?? number("bytesOut"),
      recordsInRate: number("recordsInRate"),
      recordsOutRate: number("recordsOutRate"),
      watermark: number("watermark"),
      watermarkMax: number("watermarkMax"),
      inputs: inputs.get(vertex.id) ?? [],
    };
  });
}

/**
 * Returns the records per second between two vertices, as far as the vertices tell: they count all their inputs and outputs
 * together. null: not known.
 */
export function rateBetween(from: VertexLoad, to: VertexLoad, loads: VertexLoad[]): number | null {
  if (to.inputs.length === 1) return to.recordsInRate;
  const readers = loads.filter((load) => load.inputs.includes(from.id));
  return readers.length === 1 ? from.recordsOutRate : null;
}

/** Names of vertices list their operators: `Source: a -> map -> sink`. Returns them, the first one first. */
export function operatorsIn(name: string): string[] {
  return name.split(" -> ");
}
