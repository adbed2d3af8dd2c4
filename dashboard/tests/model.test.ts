import { expect, test } from "vitest";
import type { Schema } from "../src/api/client";
import { attentionOfDiagnosis, attentionOfJobs, attentionOfTaskExecutors } from "../src/model/attention";
import { laidOut, NODE_WIDTH } from "../src/model/graph_layout";
import { loadsOf, rateBetween } from "../src/model/job_model";
import { changed } from "../src/model/live_table";
import { extended, linesOf, NO_HISTORY, sampleOf, valuesOf } from "../src/model/series";
import { spreadOf } from "../src/model/skew";

test("changed cells replace those of the table and other columns stay the same objects", () => {
  const before = changed({}, true, { busy: [1, 2, 3], status: ["RUNNING", "RUNNING", "RUNNING"] });
  const after = changed(before, false, { busy: { rows: [1], values: [9] } });
  expect(after.busy).toEqual([1, 9, 3]);
  expect(after.status).toBe(before.status);
  expect(before.busy).toEqual([1, 2, 3]);
});

test("a full answer drops columns that are gone", () => {
  expect(changed({ old: [1] }, true, { busy: [1] })).toEqual({ busy: [1] });
});

const node = (id: string, ...inputs: string[]) => ({
  id,
  inputs: inputs.map((input, num) => ({ id: input, num, ship_strategy: "HASH", exchange: "pipelined_bounded" })),
});
const vertex = (id: string) => ({ id, name: id, parallelism: 2, status: "CREATED", tasks: { CREATED: 2 } });
const JOB = {
  plan: { nodes: [node("a"), node("b"), node("c", "a", "b"), node("d", "a")] },
  vertices: ["a", "b", "c", "d"].map(vertex),
} as unknown as Schema["JobDetailsInfo"];

test("loads are those of the live table, and before the first poll those of the job", () => {
  const [first] = loadsOf(JOB, {});
  expect([first?.status, first?.busy, first?.tasks]).toEqual(["CREATED", null, { CREATED: 2 }]);
  const live = loadsOf(JOB, { status: ["RUNNING"], busyMax: [87], "tasks.RUNNING": [2] });
  expect([live[0]?.status, live[0]?.busyMax, live[0]?.tasks]).toEqual(["RUNNING", 87, { RUNNING: 2 }]);
});

test("a job without a live table has the final counts of its details, as far as they are complete", () => {
  const metrics = {
    "read-records": 3,
    "read-records-complete": true,
    "write-records": 7,
    "write-records-complete": false,
    "read-bytes": 0,
    "read-bytes-complete": true,
  };
  const ended = { ...JOB, vertices: [{ ...vertex("a"), metrics }] } as unknown as Schema["JobDetailsInfo"];
  const [first] = loadsOf(ended, null);
  expect([first?.recordsIn, first?.recordsOut, first?.bytesIn, first?.busy]).toEqual([3, null, 0, null]);
});

test("the rate of an edge is told where one end has no other edge", () => {
  const rates = { recordsInRate: [0, 0, 30, 20], recordsOutRate: [50, 10, 0, 0] };
  const loads = loadsOf(JOB, rates);
  const between = (from: number, to: number) => rateBetween(loads[from]!, loads[to]!, loads);
  expect([between(0, 3), between(1, 2), between(0, 2)]).toEqual([20, 10, null]);
});

test("vertices stand to the right of their inputs and do not overlap", () => {
  const { nodes, edges } = laidOut(JOB.plan);
  const left = (id: string) => nodes.get(id)?.x ?? Number.NaN;
  for (const [from, to] of [
    ["a", "c"],
    ["b", "c"],
    ["a", "d"],
  ] as const) {
    expect(left(to)).toBeGreaterThan(left(from) + NODE_WIDTH);
  }
  expect(nodes.get("a")?.y).not.toBe(nodes.get("b")?.y);
  expect(edges.map((edge) => `${edge.from}${edge.to}`).sort()).toEqual(["ac", "ad", "bc"]);
  expect(edges.every((edge) => edge.path.startsWith("M "))).toBe(true);
});

test("the skew is the mean deviation in percent of the mean", () => {
  expect(spreadOf([10, null, 30])).toEqual({ min: 10, max: 30, mean: 20, skew: 50, worst: 2 });
  expect(spreadOf([null])).toBeNull();
  expect(spreadOf([0, 0])?.skew).toBe(0);
});

test("plots have a value per poll, and a gap where a metric was not known", () => {
  const one = extended(NO_HISTORY, 1_000, { busy: { min: 1, max: 3, avg: 2, sum: 4 } });
  const two = extended(one, 2_000, {});
  expect(linesOf(two, "busy", ["max", "min"])).toEqual([
    [1, 2],
    [3, null],
    [1, null],
  ]);
  let long = NO_HISTORY;
  for (let index = 0; index < 1_300; index++) long = extended(long, index, {});
  expect(long.times.length).toBe(1_200);
});

const line = (state: string, more: object = {}) =>
  ({
    jid: "j",
    name: "job",
    state,
    "start-time": 0,
    "end-time": -1,
    duration: 5,
    tasks: {},
    ...more,
  }) as Schema["JobDetails"];

test("jobs that restart, failed lately or wait for slots need attention", () => {
  const titles = (job: Schema["JobDetails"], freeSlots = 1) =>
    attentionOfJobs([job], freeSlots, 1_000_000).map((one) => one.title);
  expect(titles(line("RESTARTING"))).toEqual(["job is restarting"]);
  expect(titles(line("FAILED", { "end-time": 900_000 }))).toEqual(["job has failed"]);
  expect(titles(line("FAILED", { "end-time": 100_000 }))).toEqual([]);
  expect(titles(line("RUNNING", { tasks: { scheduled: 2, running: 0 } }))).toEqual(["job has not started"]);
  expect(attentionOfJobs([line("RUNNING", { tasks: { scheduled: 2 } })], 0, 1_000_000)[0]?.detail).toBe(
    "No task slot is free.",
  );
  expect(titles(line("RUNNING", { tasks: { running: 2 } }))).toEqual([]);
});

test("TaskExecutors that are silent and findings of the diagnosis need attention", () => {
  const info = (id: string, at: number) => ({ id, timeSinceLastHeartbeat: at }) as Schema["TaskManagerInfo"];
  expect(attentionOfTaskExecutors([info("a", 950_000), info("b", 990_000)], 1_000_000).map((one) => one.key)).toEqual([
    "a stale",
  ]);
  const finding = {
    severity: "NOTE",
    sentence: "b waits.",
    advice: null,
    vertex: "v",
    subtask: null,
    operator: null,
    split: null,
  };
  const diagnosis = {
    jid: "j",
    state: "RUNNING",
    timestamp: 0,
    findings: [
      { ...finding, kind: "BACK_PRESSURE" },
      { ...finding, kind: "EVENT_TIME" },
    ],
  };
  expect(attentionOfDiagnosis("job", diagnosis)).toMatchObject([
    { tone: "warn", title: "job: back-pressure", detail: "b waits.", href: "/jobs/j/vertices/v" },
  ]);
});

test("a sample of single values leaves out what is no number", () => {
  const sample = sampleOf([{ id: "a", value: "2.5" }, { id: "b", value: "text" }, { id: "c" }, { id: "d", value: "" }]);
  const history = extended(extended(NO_HISTORY, 1_000, sample), 2_000, {});
  expect(valuesOf(history, "a")).toEqual([2.5, null]);
  expect(Object.keys(sample)).toEqual(["a"]);
});
