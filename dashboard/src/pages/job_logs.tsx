import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type Schema } from "../api/client";
import { Card } from "../components/card";
import { hasEnded } from "../components/job_table";
import { SearchField } from "../components/search_field";
import { dateTime, plural } from "../format/format";
import { noteError, usePolled } from "../state/polling";
import type { JobTabProps } from "./job_tabs";

type LogRecord = Schema["LogRecordInfo"];
type Filter = { level: string; task: string; search: string };

/** The last records that are read at first, and the most that are shown. */
const FIRST_RECORDS = 500;
const MAX_RECORDS = 3_000;
/** A pause in typing after which the filter acts. */
const TYPING_MS = 400;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"];
const TONES: Record<string, string> = { ERROR: "bad", CRITICAL: "bad", WARNING: "warn", WARN: "warn" };

/** What the functions of a job, its tasks and its JobMaster have logged and printed, from all processes. */
export default function JobLogs({ jobid, job }: JobTabProps): VNode {
  const [filter, setFilter] = useState<Filter>({ level: "INFO", task: "", search: "" });
  const [typed, setTyped] = useState(filter);
  useEffect(() => {
    const timer = setTimeout(() => setFilter(typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const change = (part: Partial<Filter>) => setTyped({ ...typed, ...part });
  return (
    <Card title="Logs of the job">
      <div class="tools">
        <select
          aria-label="Lowest level"
          value={typed.level}
          onChange={(event) => change({ level: event.currentTarget.value })}
        >
          {LEVELS.map((level) => (
            <option key={level} value={level}>
              {level} and above
            </option>
          ))}
        </select>
        <select aria-label="Task" value={typed.task} onChange={(event) => change({ task: event.currentTarget.value })}>
          <option value="">all tasks and the JobMaster</option>
          {job.vertices.map((vertex) => (
            <option key={vertex.id} value={vertex.name}>
              {vertex.name}
            </option>
          ))}
        </select>
        <SearchField label="Search the records" value={typed.search} onSearch={(search) => change({ search })} />
      </div>
      <Records key={JSON.stringify(filter)} jobid={jobid} filter={filter} isOver={hasEnded(job)} />
    </Card>
  );
}

function Records({ jobid, filter, isOver }: { jobid: string; filter: Filter; isOver: boolean }): VNode {
  const [records, setRecords] = useState<LogRecord[]>();
  const [notes, setNotes] = useState<string[]>([]);
  const [error, setError] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const position = useRef("");
  const box = useRef<HTMLDivElement>(null);

  async function load(): Promise<void> {
    try {
      const query = {
        level: filter.level.toLowerCase(),
        task: filter.task || undefined,
        search: filter.search || undefined,
        ...(position.current ? { position: position.current } : { tail: FIRST_RECORDS }),
      };
      const answer = await get("/jobs/{jobid}/log-records", { path: { jobid }, query });
      position.current = answer.position;
      setRecords((before) => [...(before ?? []), ...answer.records].slice(-MAX_RECORDS));
      setNotes([
        ...(answer.unreachable ?? []).map((name) => `${name} did not answer`),
        ...(answer["without-log"] ?? []).map((name) => `${name} logs to a terminal or a pipe`),
      ]);
    } catch (failure) {
      const known = noteError(failure);
      if (known instanceof ApiError && known.status !== 0) setError(known.message);
    }
  }
  usePolled(error || !isFollowing ? null : `records ${jobid} ${JSON.stringify(filter)}`, load);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it scrolls when records have come
  useEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [records, isFollowing]);

  if (error) return <p class="muted">{error}</p>;
  if (!records) return <div class="loading" role="status" aria-label="Loading the records" />;
  return (
    <>
      <div class="tools">
        <label class="check">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
          Follow
        </label>
        <span class="muted">{plural(records.length, "record")}</span>
        {notes.length > 0 && <span class="muted">{notes.join("; ")}</span>}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it can be scrolled with the keyboard */}
      <div class="log" ref={box} tabIndex={0} role="log" aria-label="Records" aria-live="off">
        {records.map((record, index) => (
          <div key={index} class={TONES[record.level] ? `tone-${TONES[record.level]}` : undefined}>
            <span class="muted">{record.timestamp ? dateTime(record.timestamp) : ""}</span> {record.level}{" "}
            <span class="muted">{writerOf(record)}</span> {record.message}
          </div>
        ))}
        {records.length === 0 && (
          <p class="muted">{isOver ? "No record matches." : "No record matches yet; new ones appear here."}</p>
        )}
      </div>
    </>
  );
}

/** The task that wrote a record, else its process. The name of a JobMaster has the id of the job, which is known here. */
function writerOf(record: LogRecord): string {
  if (record.task) return record.task;
  return record.process?.startsWith("jobmaster") ? "JobMaster" : (record.process ?? "");
}
