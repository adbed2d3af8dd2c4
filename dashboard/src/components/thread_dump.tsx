import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Schema } from "../api/client";
import { plural, time } from "../format/format";
import { noteError } from "../state/polling";
import { Card } from "./card";
import { CopyButton } from "./copy_button";
import type { ProcessName } from "./process_metrics";
import { SearchField } from "./search_field";

type Thread = Schema["ThreadInfo"];

/** The stacks of all Python threads of a process, as they were when somebody asked: see `ProcessName`. */
export function ThreadDump({ taskmanagerid, jobid }: ProcessName): VNode {
  const [threads, setThreads] = useState<Thread[]>();
  const [error, setError] = useState("");
  const [takenMs, setTakenMs] = useState(0);
  const [wanted, setWanted] = useState("");
  async function take(): Promise<void> {
    try {
      const dump = taskmanagerid
        ? await get("/taskmanagers/{taskmanagerid}/thread-dump", { path: { taskmanagerid } })
        : jobid
          ? await get("/jobs/{jobid}/jobmanager/thread-dump", { path: { jobid } })
          : await get("/jobmanager/thread-dump");
      setThreads(dump.threadInfos);
      setTakenMs(Date.now());
      setError("");
    } catch (failure) {
      setError(noteError(failure).message);
    }
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: once per process
  useEffect(() => void take(), [taskmanagerid, jobid]);
  const text = wanted.trim().toLowerCase();
  const shown = (threads ?? []).filter(
    (one) => !text || `${one.threadName}\n${one.stringifiedThreadInfo}`.toLowerCase().includes(text),
  );
  const whole = (threads ?? []).map((one) => `${one.threadName}\n${one.stringifiedThreadInfo}`).join("\n\n");
  return (
    <Card
      title="Threads"
      aside={
        <div class="tools">
          <CopyButton text={whole} what="all stacks" />
          <button type="button" class="button" onClick={() => void take()}>
            Take again
          </button>
        </div>
      }
    >
      {error && <p class="muted">{error}</p>}
      {threads ? (
        <>
          <div class="tools">
            <SearchField label="Search the stacks" value={wanted} onSearch={setWanted} />
            <span class="muted">
              {plural(shown.length, "thread")}, at {time(takenMs)}
            </span>
          </div>
          <div class="folds">
            {shown.map((one) => (
              <details key={one.threadName} open={threads.length <= 12 || text !== ""}>
                <summary>
                  <strong>{one.threadName}</strong>
                </summary>
                <pre class="code">{one.stringifiedThreadInfo}</pre>
              </details>
            ))}
          </div>
        </>
      ) : (
        !error && <div class="loading" role="status" aria-label="Loading the threads" />
      )}
    </Card>
  );
}
