import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Answer, change } from "../api/client";
import { CopyButton } from "../components/copy_button";
import { Dialog } from "../components/dialog";
import { hasEnded } from "../components/job_table";
import { duration } from "../format/format";
import { config } from "../state/connection";
import { type JobOperation, jobOperations, startOperation } from "../state/job_operations";
import { refresh } from "../state/polling";
import { fail, succeed } from "../state/toasts";

type Job = Answer<"/jobs/{jobid}">;
type Kind = "savepoint" | "stop" | "cancel";

/** The buttons that steer a job. They are not there for users who may not, and where the cluster forbids it. */
export function JobActions({ job }: { job: Job }): VNode | null {
  const [open, setOpen] = useState<Kind | null>(null);
  const operation = jobOperations.value[job.jid];
  if (!config.value?.features["web-cancel"] && !open) return null;
  const isOver = hasEnded(job);
  const isStreaming = job["job-type"] !== "BATCH";
  const button = (kind: Kind, title: string) => (
    <button type="button" class={kind === "cancel" ? "button danger" : "button"} onClick={() => setOpen(kind)}>
      {title}
    </button>
  );
  return (
    <>
      {operation && !open && <OperationButton operation={operation} onOpen={() => setOpen(operation.kind)} />}
      {!isOver && isStreaming && button("savepoint", "Savepoint")}
      {!isOver && isStreaming && button("stop", "Stop")}
      {!isOver && button("cancel", "Cancel")}
      {open === "cancel" && <CancelDialog job={job} onClose={() => setOpen(null)} />}
      {(open === "savepoint" || open === "stop") && (
        <SavepointDialog key={open} kind={open} job={job} onClose={() => setOpen(null)} />
      )}
    </>
  );
}

/** What became of the last operation, for those who have closed its dialog. */
function OperationButton({ operation, onOpen }: { operation: JobOperation; onOpen: () => void }): VNode {
  const tone = { running: "active", done: "good", failed: "bad" }[operation.state];
  const noun = operation.kind === "savepoint" ? "Savepoint" : "Stop";
  const text = { running: "in progress …", done: "complete", failed: "failed" }[operation.state];
  return (
    <button type="button" class={`button operation tone-${tone}`} onClick={onOpen}>
      {noun} {text}
    </button>
  );
}

function CancelDialog({ job, onClose }: { job: Job; onClose: () => void }): VNode {
  const [isSending, setSending] = useState(false);
  async function cancel(): Promise<void> {
    setSending(true);
    try {
      await change("PATCH", "/jobs/{jobid}", { path: { jobid: job.jid }, query: { mode: "cancel" } });
      succeed(`${job.name} is being canceled`);
      refresh();
      onClose();
    } catch (error) {
      setSending(false);
      fail(`${job.name} was not canceled`, error);
    }
  }
  return (
    <Dialog title={`Cancel ${job.name}?`} onClose={onClose}>
      <p>
        The job ends at once and without a savepoint. What it has done since its last checkpoint is lost, unless its
        sinks have shown it already.
      </p>
      <footer>
        <button type="button" class="button" onClick={onClose}>
          Keep it running
        </button>
        <button type="button" class="button danger solid" disabled={isSending} onClick={() => void cancel()}>
          Cancel the job
        </button>
      </footer>
    </Dialog>
  );
}

function SavepointDialog(props: { kind: "savepoint" | "stop"; job: Job; onClose: () => void }): VNode {
  const { kind, job, onClose } = props;
  const operation = jobOperations.value[job.jid];
  // A finished operation of before is shown when its button was clicked, and a new one can be begun from there.
  const [isShown, setShown] = useState(operation?.kind === kind && operation.state === "running");
  const [directory, setDirectory] = useState("");
  const [drain, setDrain] = useState(false);
  const [format, setFormat] = useState("CANONICAL");
  async function start(): Promise<void> {
    await startOperation({ jid: job.jid, name: job.name }, kind, { directory, drain, format });
    setShown(true);
  }
  const title = kind === "savepoint" ? `Savepoint of ${job.name}` : `Stop ${job.name} with a savepoint`;
  const shown = operation?.kind === kind && (isShown || operation.state !== "running") ? operation : undefined;
  return (
    <Dialog title={title} onClose={onClose}>
      {shown && <Progress operation={shown} />}
      {shown?.state !== "running" && !hasEnded(job) && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <label class="field">
            Directory
            <input
              type="text"
              value={directory}
              placeholder="execution.checkpointing.savepoint-dir of the job"
              onInput={(event) => setDirectory(event.currentTarget.value)}
            />
          </label>
          <label class="field">
            Format
            <select value={format} onChange={(event) => setFormat(event.currentTarget.value)}>
              <option value="CANONICAL">canonical: any state backend can read it</option>
              <option value="NATIVE">native: faster, for the same state backend</option>
            </select>
          </label>
          {kind === "stop" && (
            <label class="check">
              <input type="checkbox" checked={drain} onChange={(event) => setDrain(event.currentTarget.checked)} />
              Drain: end event time first, so that all windows and timers fire. The job cannot be continued then.
            </label>
          )}
          <footer>
            <button type="button" class="button" onClick={onClose}>
              Close
            </button>
            <button type="submit" class="button primary">
              {kind === "savepoint" ? "Take a savepoint" : "Stop the job"}
            </button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}

function Progress({ operation }: { operation: JobOperation }): VNode {
  const [now, setNow] = useState(Date.now());
  const isRunning = operation.state === "running";
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [isRunning]);
  if (isRunning) {
    return (
      <div class="progress" role="status">
        <progress aria-label="In progress" />
        <p>
          {operation.kind === "savepoint" ? "The savepoint is being taken" : "The job is being stopped"}, for{" "}
          {duration(Math.max(0, now - operation.startedMs))}. You may close this dialog.
        </p>
      </div>
    );
  }
  if (operation.state === "failed") {
    return (
      <div class="progress tone-bad" role="status">
        <p>
          <strong>It failed.</strong>
        </p>
        <pre class="code">{operation.failure}</pre>
      </div>
    );
  }
  return (
    <div class="progress tone-good" role="status">
      <p>
        <strong>
          {operation.kind === "savepoint" ? "The savepoint is complete." : "The job has stopped with a savepoint."}
        </strong>
      </p>
      <p class="tools">
        <code>{operation.location}</code>
        <CopyButton text={operation.location ?? ""} what="the path of the savepoint" />
      </p>
    </div>
  );
}
