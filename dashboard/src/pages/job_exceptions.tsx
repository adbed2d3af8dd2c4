import type { VNode } from "preact";
import { Link } from "wouter-preact";
import type { Schema } from "../api/client";
import { Card } from "../components/card";
import { Message, NoData } from "../components/message";
import { dateTime, plural } from "../format/format";
import { readStack } from "../model/stack_trace";
import { isHistory } from "../state/connection";
import { useQuery } from "../state/polling";
import type { JobTabProps } from "./job_tabs";

type Failure = Schema["RootExceptionInfo"];
type Exception = Schema["ExceptionInfo"];

/** The failures of a job, newest first, each with the user's traceback. */
export default function JobExceptions({ jobid }: JobTabProps): VNode {
  const { data, error } = useQuery("/jobs/{jobid}/exceptions", { path: { jobid } });
  if (!data) return <NoData error={error} what="The failures of this job" />;
  const { entries, truncated } = data.exceptionHistory;
  const [latest, ...earlier] = entries;
  if (!latest) return <Message title="Nothing has failed">This job has had no failures so far.</Message>;
  return (
    <>
      <Card title="Last failure" aside={<span class="muted">{dateTime(latest.timestamp)}</span>}>
        <FailureBody failure={latest} />
      </Card>
      {earlier.length > 0 && (
        <Card title="Earlier failures" aside={<span class="muted">{plural(earlier.length, "failure")}</span>}>
          <div class="folds">
            {earlier.map((failure) => (
              <details key={`${failure.timestamp} ${failure.taskName ?? ""}`}>
                <summary>
                  <span class="mono">{dateTime(failure.timestamp)}</span>
                  <strong>{readStack(failure.stacktrace).rootCause}</strong>
                  {failure.taskName && <span class="muted">{failure.taskName}</span>}
                </summary>
                <FailureBody failure={failure} />
              </details>
            ))}
          </div>
          {truncated && <p class="muted">Still earlier failures are not kept (web.exception-history-size).</p>}
        </Card>
      )}
    </>
  );
}

function FailureBody({ failure }: { failure: Failure }): VNode {
  const stack = readStack(failure.stacktrace);
  return (
    <div class="failure">
      <p class="root-cause">{stack.rootCause}</p>
      <Where exception={failure} />
      {stack.userTraceback && <pre class="code">{stack.userTraceback}</pre>}
      <details>
        <summary>The whole error, with its causes</summary>
        <pre class="code">{failure.stacktrace}</pre>
      </details>
      {failure.concurrentExceptions.length > 0 && (
        <details>
          <summary>{plural(failure.concurrentExceptions.length, "failure")} that came with it</summary>
          {failure.concurrentExceptions.map((other) => (
            <div key={`${other.timestamp} ${other.taskName ?? ""}`}>
              <Where exception={other} />
              <pre class="code">{other.stacktrace}</pre>
            </div>
          ))}
        </details>
      )}
    </div>
  );
}

function Where({ exception }: { exception: Exception }): VNode {
  const manager = exception.taskManagerId;
  return (
    <p class="muted where">
      <span>{exception.taskName ?? "The whole job"}</span>
      {manager && !manager.startsWith("(") && (
        <span>on {isHistory.value ? manager : <Link href={`/taskmanagers/${manager}`}>{manager}</Link>}</span>
      )}
      <span>{dateTime(exception.timestamp)}</span>
    </p>
  );
}
