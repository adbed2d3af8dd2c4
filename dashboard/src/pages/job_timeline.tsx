import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Answer } from "../api/client";
import { Card } from "../components/card";
import { hasEnded } from "../components/job_table";
import { toneOf } from "../components/state_badge";
import { dateTime, duration, plural } from "../format/format";
import { type End, endsOf, marksOf, type Segment, segmentsOf, withFormer } from "../model/timeline";
import { useQuery } from "../state/polling";
import type { JobTabProps } from "./job_tabs";

type Job = Answer<"/jobs/{jobid}">;
type Vertex = Job["vertices"][number];
type Scale = { startMs: number; spanMs: number };

/** The states between the creation of a task and its end, as the legend shows them. */
const STATES = ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "RESTARTING", "CANCELING"];
/** Vertices of small jobs show their subtasks at once. */
const MAX_OPEN_SUBTASKS = 24;
/** Former attempts change at a restart only. */
const SELDOM_MS = 10_000;

/** When each vertex and subtask was in which state. */
export default function JobTimeline({ job }: JobTabProps): VNode {
  const startMs = job["start-time"];
  const endMs = hasEnded(job) ? job["end-time"] : job.now;
  const scale = { startMs, spanMs: Math.max(1, endMs - startMs) };
  const subtasks = job.vertices.reduce((sum, vertex) => sum + Math.max(0, vertex.parallelism), 0);
  return (
    <Card title="Timeline" aside={<Legend />}>
      <div class="gantt">
        <Axis scale={scale} />
        <Line
          title={<strong>The job</strong>}
          scale={scale}
          segments={segmentsOf(job.timestamps, endMs)}
          ends={endsOf(job.timestamps)}
        />
        {job.vertices.map((vertex) => (
          <VertexLines
            key={vertex.id}
            jobid={job.jid}
            vertex={vertex}
            scale={scale}
            nowMs={endMs}
            isOpenAtFirst={subtasks <= MAX_OPEN_SUBTASKS}
          />
        ))}
      </div>
    </Card>
  );
}

function Legend(): VNode {
  return (
    <p class="part-legend">
      {STATES.map((state) => (
        <span key={state}>
          <i class={`state-${state}`} />
          {state.toLowerCase()}
        </span>
      ))}
    </p>
  );
}

function Axis({ scale }: { scale: Scale }): VNode {
  return (
    <div class="gantt-line axis" aria-hidden="true">
      <span>{dateTime(scale.startMs)}</span>
      <div class="track">
        {marksOf(scale.spanMs).map((at) => (
          <span key={at} class="mark" style={{ left: `${(at / scale.spanMs) * 100}%` }}>
            {at === 0 ? "0" : duration(at)}
          </span>
        ))}
      </div>
    </div>
  );
}

function VertexLines(props: {
  jobid: string;
  vertex: Vertex;
  scale: Scale;
  nowMs: number;
  isOpenAtFirst: boolean;
}): VNode {
  const { jobid, vertex } = props;
  const [isOpen, setOpen] = useState(props.isOpenAtFirst);
  const start = vertex["start-time"];
  const end = vertex["end-time"];
  const whole = start > 0 ? [{ state: "RUNNING", fromMs: start, toMs: end > 0 ? end : props.nowMs }] : [];
  return (
    <>
      <Line
        title={
          <>
            <button
              type="button"
              class="icon-button"
              aria-expanded={isOpen}
              aria-label={`Subtasks of ${vertex.name}`}
              onClick={() => setOpen(!isOpen)}
            >
              {isOpen ? "▾" : "▸"}
            </button>
            <Link href={`/jobs/${jobid}/vertices/${vertex.id}`} title={vertex.name}>
              {vertex.name}
            </Link>
          </>
        }
        scale={props.scale}
        segments={whole}
        ends={end > 0 ? [{ state: vertex.status, at: end }] : []}
        detail={plural(vertex.parallelism, "subtask")}
        isVertex
      />
      {isOpen && <SubtaskLines {...props} />}
    </>
  );
}

function SubtaskLines(props: { jobid: string; vertex: Vertex; scale: Scale; nowMs: number }): VNode {
  const path = { jobid: props.jobid, vertexid: props.vertex.id };
  const { data } = useQuery("/jobs/{jobid}/vertices/{vertexid}/subtasktimes", { path });
  const former = useQuery("/jobs/{jobid}/vertices/{vertexid}/former-attempts", { path }, SELDOM_MS).data;
  return (
    <>
      {data?.subtasks.map((subtask) => (
        <Line
          key={subtask.subtask}
          title={
            <span class="muted subtask">
              {subtask.subtask} <span class="mono">{subtask.endpoint}</span>
            </span>
          }
          scale={props.scale}
          {...withFormer(
            (former?.attempts ?? []).filter((one) => one.subtask === subtask.subtask).map((one) => one.timestamps),
            subtask.timestamps,
            props.nowMs,
          )}
        />
      ))}
    </>
  );
}

function Line(props: {
  title: preact.ComponentChildren;
  scale: Scale;
  segments: Segment[];
  ends: End[];
  detail?: string;
  isVertex?: boolean;
}): VNode {
  const { startMs, spanMs } = props.scale;
  const share = (ms: number) => Math.min(100, Math.max(0, (ms / spanMs) * 100));
  const texts = props.segments.map((one) => `${one.state.toLowerCase()} ${duration(one.toMs - one.fromMs)}`);
  texts.push(...props.ends.map((end) => `${end.state.toLowerCase()} at ${dateTime(end.at)}`));
  return (
    <div class={props.isVertex ? "gantt-line vertex" : "gantt-line"}>
      <span class="gantt-title">{props.title}</span>
      <div class="track" role="img" aria-label={texts.join(", ")}>
        {props.segments.map((one) => (
          <i
            key={`${one.state} ${one.fromMs}`}
            class={`state-${one.state}`}
            title={`${one.state}: ${duration(one.toMs - one.fromMs)}, from ${dateTime(one.fromMs)}`}
            style={{ left: `${share(one.fromMs - startMs)}%`, width: `${share(one.toMs - one.fromMs)}%` }}
          />
        ))}
        {props.ends.map((end) => (
          <b
            key={end.at}
            class={`end tone-${toneOf(end.state)}`}
            title={`${end.state} at ${dateTime(end.at)}`}
            style={{ left: `${share(end.at - startMs)}%` }}
          />
        ))}
      </div>
    </div>
  );
}
