import type { VNode } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "../api/client";
import { Card, Facts, Stat } from "../components/card";
import { type Column, DataTable } from "../components/data_table";
import { NoData } from "../components/message";
import { StackedBar } from "../components/stacked_bar";
import { StateBadge } from "../components/state_badge";
import { bytes, dateTime, duration, plural, time } from "../format/format";
import { delaySentence, PART_TITLES, type Part, partsOf, type SubtaskTimes } from "../model/checkpoint_delay";
import { useQuery } from "../state/polling";
import type { JobTabProps } from "./job_tabs";

type Statistics = Answer<"/jobs/{jobid}/checkpoints">;
type Checkpoint = Statistics["history"][number];
type Subtask = Answer<"/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}">["subtasks"][number];
type Acknowledged = Extract<Subtask, { className: "completed" }>;

/** What Flink has for "no periodic checkpoints": the largest long, which JavaScript rounds. */
const NO_INTERVAL = 9e18;
/** An ended checkpoint does not change any more. */
const ENDED_INTERVAL_MS = 3_600_000;
const PARTS: Part[] = ["startDelay", "alignment", "sync", "async", "other"];

/** The checkpoints of a job: how they went, and what held one up. */
export default function JobCheckpoints({ jobid, job }: JobTabProps): VNode {
  const { data, error } = useQuery("/jobs/{jobid}/checkpoints", { path: { jobid } });
  const { data: config } = useQuery("/jobs/{jobid}/checkpoints/config", { path: { jobid } }, 60_000);
  const [chosen, choose] = useState<number | null>(null);
  if (!data) return <NoData error={error} what="The checkpoints of this job" />;
  const { counts, latest, summary } = data;
  const ended = data.history.find((one) => one.className !== "in_progress");
  const shownId = chosen ?? (ended ?? data.history[0])?.id ?? null;
  return (
    <>
      <dl class="stats">
        <Stat
          label="Completed"
          value={counts.completed}
          detail={latest.completed ? `last at ${time(latest.completed.latest_ack_timestamp)}` : "none yet"}
        />
        <Stat
          label="Failed"
          value={counts.failed}
          tone={counts.failed > 0 ? "bad" : undefined}
          detail={latest.failed ? `last at ${time(latest.failed.failure_timestamp)}` : undefined}
        />
        <Stat label="In progress" value={counts.in_progress} />
        <Stat
          label="Duration"
          value={latest.completed ? duration(latest.completed.end_to_end_duration) : duration(undefined)}
          detail={
            counts.completed
              ? `${duration(summary.end_to_end_duration.avg)} on average, ${duration(summary.end_to_end_duration.max)} at most`
              : undefined
          }
        />
        <Stat
          label="Written"
          value={latest.completed ? bytes(latest.completed.checkpointed_size) : bytes(undefined)}
          detail={latest.completed ? `${bytes(latest.completed.state_size)} of state in all` : undefined}
        />
      </dl>
      {data.history.length > 1 && <DurationHistory history={data.history} chosen={shownId} onChoose={choose} />}
      {shownId !== null && (
        <CheckpointDetails
          jobid={jobid}
          job={job}
          id={shownId}
          hasEnded={data.history.find((one) => one.id === shownId)?.className !== "in_progress"}
        />
      )}
      <Card title="History">
        <HistoryTable history={data.history} chosen={shownId} onChoose={choose} />
      </Card>
      {config && (
        <Card title="Configuration">
          <Facts
            facts={[
              ["Interval", config.interval < NO_INTERVAL ? duration(config.interval) : "no periodic checkpoints"],
              ["Mode", config.mode === "exactly_once" ? "exactly once" : "at least once"],
              ["Timeout", duration(config.timeout)],
              ["Pause between checkpoints", duration(config.min_pause)],
              ["At the same time", config.max_concurrent],
              ["Unaligned", config.unaligned_checkpoints ? "yes" : "no"],
              ["Failures tolerated", config.tolerable_failed_checkpoints],
              ["State backend", config.state_backend],
              ["Storage", config.checkpoint_storage],
              ["Kept after cancellation", keptText(config.externalization)],
            ]}
          />
        </Card>
      )}
      {latest.restored && (
        <Card title="Restored from">
          <Facts
            facts={[
              [latest.restored.is_savepoint ? "Savepoint" : "Checkpoint", latest.restored.id],
              ["At", dateTime(latest.restored.restore_timestamp)],
              ["Path", <code key="path">{latest.restored.external_path}</code>],
            ]}
          />
        </Card>
      )}
    </>
  );
}

function keptText(externalization: { enabled: boolean; delete_on_cancellation: boolean }): string {
  return externalization.enabled && !externalization.delete_on_cancellation ? "yes" : "no";
}

/** A bar per checkpoint, the oldest on the left. A click chooses it. */
function DurationHistory(props: {
  history: Checkpoint[];
  chosen: number | null;
  onChoose: (id: number) => void;
}): VNode {
  const bars = [...props.history].reverse().slice(-60);
  const longest = Math.max(1, ...bars.map((one) => one.end_to_end_duration));
  return (
    <Card
      title="Durations"
      aside={
        <span class="muted">
          {plural(bars.length, "checkpoint")}, up to {duration(longest)}
        </span>
      }
    >
      <div class="bar-history">
        {bars.map((one) => (
          <button
            type="button"
            key={one.id}
            class={`bar tone-${one.className === "failed" ? "bad" : one.className === "completed" ? "good" : "active"}`}
            aria-pressed={one.id === props.chosen}
            aria-label={`Checkpoint ${one.id}, ${one.status}, ${duration(one.end_to_end_duration)}`}
            title={`Checkpoint ${one.id}: ${one.status.toLowerCase()}, ${duration(one.end_to_end_duration)}, ${bytes(one.checkpointed_size)}`}
            onClick={() => props.onChoose(one.id)}
          >
            <span style={{ height: `${Math.max(4, (one.end_to_end_duration / longest) * 100)}%` }} />
          </button>
        ))}
      </div>
    </Card>
  );
}

function HistoryTable(props: { history: Checkpoint[]; chosen: number | null; onChoose: (id: number) => void }): VNode {
  const { onChoose } = props;
  const columns = useMemo<Column<Checkpoint>[]>(
    () => [
      {
        id: "id",
        title: "Id",
        width: "5rem",
        isNumber: true,
        sort: (one) => one.id,
        render: (one) => (
          <button type="button" class="link" aria-label={`Show checkpoint ${one.id}`} onClick={() => onChoose(one.id)}>
            {one.id}
          </button>
        ),
      },
      { id: "state", title: "State", sort: (one) => one.status, render: (one) => <StateBadge state={one.status} /> },
      { id: "kind", title: "Kind", sort: kindOf, render: kindOf },
      {
        id: "trigger",
        title: "Triggered",
        sort: (one) => one.trigger_timestamp,
        render: (one) => time(one.trigger_timestamp),
      },
      {
        id: "duration",
        title: "Duration",
        isNumber: true,
        sort: (one) => one.end_to_end_duration,
        render: (one) => duration(one.end_to_end_duration),
      },
      {
        id: "written",
        title: "Written",
        isNumber: true,
        sort: (one) => one.checkpointed_size,
        render: (one) => bytes(one.checkpointed_size),
      },
      {
        id: "state-size",
        title: "Whole state",
        isNumber: true,
        sort: (one) => one.state_size,
        render: (one) => bytes(one.state_size),
      },
      {
        id: "in-flight",
        title: "In flight",
        isNumber: true,
        sort: (one) => one.persisted_data,
        render: (one) => bytes(one.persisted_data),
      },
      {
        id: "acks",
        title: "Acknowledged",
        isNumber: true,
        sort: (one) => one.num_acknowledged_subtasks,
        render: (one) => `${one.num_acknowledged_subtasks} of ${one.num_subtasks}`,
      },
    ],
    [onChoose],
  );
  return (
    <DataTable
      label="Checkpoints"
      columns={columns}
      rows={props.history}
      rowKey={(one) => one.id}
      isSelected={(one) => one.id === props.chosen}
      initialSort="-id"
      empty="No checkpoint has been triggered yet."
    />
  );
}

function kindOf(checkpoint: Checkpoint): string {
  if (checkpoint.is_savepoint) return checkpoint.checkpoint_type === "SAVEPOINT" ? "savepoint" : "stop with savepoint";
  return checkpoint.checkpoint_type === "UNALIGNED_CHECKPOINT" ? "unaligned" : "checkpoint";
}

/** The last value that was there: what is shown while the next one is on its way. */
function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef<T | undefined>(undefined);
  if (value !== undefined) last.current = value;
  return last.current;
}

function CheckpointDetails({ jobid, job, id, hasEnded }: JobTabProps & { id: number; hasEnded: boolean }): VNode {
  const path = { jobid, checkpointid: id };
  const everyMs = hasEnded ? ENDED_INTERVAL_MS : 0;
  const { data, error } = useQuery("/jobs/{jobid}/checkpoints/details/{checkpointid}", { path }, everyMs);
  const checkpoint = useLast(data);
  const [chosen, choose] = useState<string | null>(null);
  if (!checkpoint) return <NoData error={error} what={`Checkpoint ${id}`} />;
  const tasks = checkpoint.tasks;
  const vertices = job.vertices.filter((vertex) => tasks[vertex.id]);
  const slowest = vertices.reduce<string | null>(
    (last, { id }) =>
      last === null || (tasks[id]?.latest_ack_timestamp ?? 0) > (tasks[last]?.latest_ack_timestamp ?? 0) ? id : last,
    null,
  );
  const vertexid = chosen ?? slowest;
  const missing = vertices.filter((vertex) => {
    const task = tasks[vertex.id];
    return task && task.num_acknowledged_subtasks < task.num_subtasks;
  });
  return (
    <Card
      title={`${checkpoint.is_savepoint ? "Savepoint" : "Checkpoint"} ${checkpoint.id}`}
      aside={<StateBadge state={checkpoint.status} />}
    >
      {checkpoint.className === "failed" && <pre class="code tone-bad">{checkpoint.failure_message}</pre>}
      {checkpoint.className === "completed" && checkpoint.external_path && (
        <p class="muted">
          <code>{checkpoint.external_path}</code>
          {checkpoint.discarded && " (deleted since)"}
        </p>
      )}
      {checkpoint.className !== "completed" && missing.length > 0 && (
        <p>
          {checkpoint.className === "failed" ? "It waited for " : "It waits for "}
          {missing.map((vertex) => vertex.name).join(", ")}.
        </p>
      )}
      {slowest && checkpoint.className === "completed" && (
        <HeldUpBy
          jobid={jobid}
          checkpoint={checkpoint}
          vertexid={slowest}
          name={job.vertices.find((one) => one.id === slowest)?.name ?? ""}
        />
      )}
      {vertices.length > 0 && (
        <fieldset class="chips" aria-label="Vertex">
          {vertices.map((vertex) => (
            <button
              type="button"
              key={vertex.id}
              class="chip"
              aria-pressed={vertex.id === vertexid}
              onClick={() => choose(vertex.id)}
            >
              {vertex.name}
              <span class="muted">{duration(tasks[vertex.id]?.end_to_end_duration)}</span>
            </button>
          ))}
        </fieldset>
      )}
      {vertexid && <SubtaskTable jobid={jobid} checkpoint={checkpoint} vertexid={vertexid} />}
    </Card>
  );
}

function useSubtasks(jobid: string, checkpoint: Checkpoint, vertexid: string): Subtask[] | undefined {
  const everyMs = checkpoint.className === "in_progress" ? 0 : ENDED_INTERVAL_MS;
  const path = { jobid, checkpointid: checkpoint.id, vertexid };
  const { data } = useQuery("/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}", { path }, everyMs);
  return useLast(data)?.subtasks;
}

function timesOf(subtask: Acknowledged): SubtaskTimes {
  return {
    index: subtask.index,
    ackTimestamp: subtask.ack_timestamp,
    startDelay: subtask.start_delay,
    alignment: subtask.alignment.duration,
    sync: subtask.checkpoint.sync,
    async: subtask.checkpoint.async,
  };
}

/** The sentence that says which subtask held the checkpoint up. */
function HeldUpBy(props: { jobid: string; checkpoint: Checkpoint; vertexid: string; name: string }): VNode | null {
  const subtasks = useSubtasks(props.jobid, props.checkpoint, props.vertexid);
  const done = subtasks?.filter((one) => one.className === "completed") ?? [];
  const last = done.reduce<Acknowledged | null>(
    (latest, one) => (latest === null || one.ack_timestamp > latest.ack_timestamp ? one : latest),
    null,
  );
  if (!last || !subtasks) return null;
  return (
    <p class="held-up">
      {delaySentence(props.name, subtasks.length, timesOf(last), props.checkpoint.trigger_timestamp, duration)}
    </p>
  );
}

function SubtaskTable(props: { jobid: string; checkpoint: Checkpoint; vertexid: string }): VNode {
  const subtasks = useSubtasks(props.jobid, props.checkpoint, props.vertexid);
  const trigger = props.checkpoint.trigger_timestamp;
  const longest = Math.max(
    1,
    ...(subtasks ?? []).map((one) => (one.className === "completed" ? one.ack_timestamp - trigger : 0)),
  );
  const columns = useMemo<Column<Subtask>[]>(() => {
    const number = (id: string, title: string, read: (one: Acknowledged) => number): Column<Subtask> => ({
      id,
      title,
      isNumber: true,
      sort: (one) => (one.className === "completed" ? read(one) : Number.NaN),
      render: (one) =>
        one.className === "completed" ? (id === "written" ? bytes(read(one)) : duration(read(one))) : "–",
    });
    return [
      {
        id: "index",
        title: "Subtask",
        width: "5rem",
        isNumber: true,
        sort: (one) => one.index,
        render: (one) => one.index,
      },
      {
        id: "parts",
        title: "Parts",
        width: "minmax(14rem, 3fr)",
        render: (one) =>
          one.className === "completed" ? (
            <StackedBar
              total={longest}
              format={duration}
              parts={partsOf(timesOf(one), trigger).map(([part, ms]) => ({ name: part, title: PART_TITLES[part], ms }))}
            />
          ) : (
            <span class="muted">has not acknowledged</span>
          ),
      },
      number("total", "Total", (one) => one.ack_timestamp - trigger),
      number("start", "Start delay", (one) => one.start_delay),
      number("alignment", "Alignment", (one) => one.alignment.duration),
      number("sync", "Sync", (one) => one.checkpoint.sync),
      number("async", "Async", (one) => one.checkpoint.async),
      number("written", "Written", (one) => one.checkpointed_size),
    ];
  }, [trigger, longest]);
  return (
    <>
      <p class="part-legend">
        {PARTS.map((part) => (
          <span key={part}>
            <i class={`part-${part}`} />
            {PART_TITLES[part]}
          </span>
        ))}
      </p>
      <DataTable
        label="Subtasks of the checkpoint"
        columns={columns}
        rows={subtasks ?? []}
        rowKey={(one) => one.index}
        initialSort="-total"
        empty={subtasks ? undefined : "Loading …"}
      />
    </>
  );
}
