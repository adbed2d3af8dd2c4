import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { type Answer, ApiError, change, get, type Schema } from "../api/client";
import { Card } from "../components/card";
import { type Column, DataTable } from "../components/data_table";
import { Message, NoData } from "../components/message";
import { PageHead } from "../components/page_head";
import { dateTime } from "../format/format";
import { readOptions, splitArguments } from "../model/arguments";
import { noteError, refresh, useQuery } from "../state/polling";
import { fail, succeed } from "../state/toasts";

type Program = Schema["JarFileInfo"];
type Application = Answer<"/applications/{applicationid}">;

const POLL_MS = 500;

/** Uploads programs and runs them. */
export default function Submit(): VNode {
  const { data: config } = useQuery("/config", {}, 60_000);
  if (config && !config.features["web-submit"]) {
    return (
      <Message title="Programs cannot be submitted here">
        Your role may only read, or the cluster has web.submit.enable: false.
      </Message>
    );
  }
  return config ? <Programs /> : <NoData error={undefined} what="the programs" />;
}

function Programs(): VNode {
  const { data, error } = useQuery("/jars");
  const [chosen, choose] = useState<string | null>(null);
  const columns = useMemo<Column<Program>[]>(
    () => [
      {
        id: "name",
        title: "Program",
        width: "minmax(14rem, 3fr)",
        sort: (one) => one.name,
        render: (one) => (
          <button type="button" class="link" onClick={() => choose(one.id)}>
            {one.name}
          </button>
        ),
      },
      {
        id: "entry",
        title: "Entry points",
        text: (one) => one.entry.map((entry) => entry.name).join(" "),
        render: (one) => <code>{one.entry.map((entry) => entry.name).join(", ")}</code>,
      },
      { id: "uploaded", title: "Uploaded", sort: (one) => one.uploaded, render: (one) => dateTime(one.uploaded) },
      {
        id: "actions",
        title: "",
        width: "11rem",
        render: (one) => (
          <span class="tools">
            <button type="button" class="button" aria-label={`Run ${one.name}`} onClick={() => choose(one.id)}>
              Run
            </button>
            <button
              type="button"
              class="button danger"
              aria-label={`Delete ${one.name}`}
              onClick={() => void remove(one)}
            >
              Delete
            </button>
          </span>
        ),
      },
    ],
    [],
  );
  if (!data) return <NoData error={error} what="The list of programs" />;
  const program = data.files.find((one) => one.id === chosen);
  return (
    <>
      <PageHead title="Submit a program" />
      <Card title="Programs">
        <Upload onUploaded={choose} />
        <DataTable
          label="Programs"
          columns={columns}
          rows={data.files}
          rowKey={(one) => one.id}
          initialSort="-uploaded"
          isSelected={(one) => one.id === chosen}
          empty="Upload a Python script (.py), a zip file with __main__.py (.zip, .pyz), or a wheel (.whl)."
        />
      </Card>
      {program && <RunForm key={program.id} program={program} />}
    </>
  );
}

async function remove(program: Program): Promise<void> {
  try {
    await change("DELETE", "/jars/{jarid}", { path: { jarid: program.id } });
    succeed(`${program.name} is deleted`);
    refresh();
  } catch (error) {
    fail(`${program.name} was not deleted`, error);
  }
}

function Upload({ onUploaded }: { onUploaded: (id: string) => void }): VNode {
  const [isSending, setSending] = useState(false);
  async function upload(input: HTMLInputElement): Promise<void> {
    const file = input.files?.[0];
    if (!file) return;
    setSending(true);
    const form = new FormData();
    form.append("jarfile", file, file.name);
    try {
      const { filename } = await change("POST", "/jars/upload", {}, form);
      succeed(`${file.name} is uploaded`);
      refresh();
      onUploaded(filename.split("/").at(-1) ?? "");
    } catch (error) {
      fail(`${file.name} was not uploaded`, error);
    } finally {
      setSending(false);
      input.value = "";
    }
  }
  return (
    <label class="upload">
      <span>{isSending ? "Uploading …" : "Upload a program: .py, .pyz, .zip or .whl"}</span>
      <input
        type="file"
        accept=".py,.pyz,.zip,.whl"
        disabled={isSending}
        onChange={(event) => void upload(event.currentTarget)}
      />
    </label>
  );
}

function RunForm({ program }: { program: Program }): VNode {
  const [, navigate] = useLocation();
  const [entry, setEntry] = useState("");
  const [line, setLine] = useState("");
  const [parallelism, setParallelism] = useState("");
  const [savepoint, setSavepoint] = useState("");
  const [skips, setSkips] = useState(false);
  const [options, setOptions] = useState("");
  const [isRunning, setRunning] = useState(false);
  const [failure, setFailure] = useState("");

  async function run(): Promise<void> {
    setFailure("");
    setRunning(true);
    try {
      const body = {
        entryClass: entry || null,
        programArgsList: splitArguments(line),
        parallelism: parallelism ? Number(parallelism) : null,
        savepointPath: savepoint.trim() || null,
        allowNonRestoredState: skips,
        flinkConfiguration: readOptions(options),
      };
      const started = await change("POST", "/jars/{jarid}/run-application", { path: { jarid: program.id } }, body);
      const jobid = await firstJob(started.applicationid);
      if (jobid) {
        succeed(`${program.name} runs`);
        navigate(`/jobs/${jobid}`);
      } else {
        succeed(`${program.name} has ended and ran no job`);
      }
    } catch (error) {
      if (error instanceof ApiError) noteError(error);
      setFailure(String((error as Error).message ?? error));
    } finally {
      setRunning(false);
    }
  }

  return (
    <Card title={`Run ${program.name}`}>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {program.entry.length > 1 && (
          <label class="field">
            Entry point
            <select value={entry} onChange={(event) => setEntry(event.currentTarget.value)}>
              <option value="">Choose one</option>
              {program.entry.map((one) => (
                <option key={one.name} value={one.name}>
                  {one.name}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="field wide">
          Arguments
          <input
            type="text"
            class="mono"
            value={line}
            placeholder="--input /data --title 'two words'"
            onInput={(event) => setLine(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          Parallelism
          <input
            type="number"
            min="1"
            value={parallelism}
            placeholder="parallelism.default"
            onInput={(event) => setParallelism(event.currentTarget.value)}
          />
        </label>
        <label class="field wide">
          Start from the savepoint
          <input
            type="text"
            value={savepoint}
            placeholder="none"
            onInput={(event) => setSavepoint(event.currentTarget.value)}
          />
        </label>
        <label class="check">
          <input type="checkbox" checked={skips} onChange={(event) => setSkips(event.currentTarget.checked)} />
          Skip state of operators that the program no longer has
        </label>
        <label class="field wide">
          Options, one a line
          <textarea
            rows={3}
            class="mono"
            value={options}
            placeholder="execution.checkpointing.interval: 10 s"
            onInput={(event) => setOptions(event.currentTarget.value)}
          />
        </label>
        <footer>
          <button type="submit" class="button primary" disabled={isRunning}>
            {isRunning ? "Starting …" : "Run"}
          </button>
          {isRunning && <progress aria-label="The program is starting" />}
        </footer>
      </form>
      {failure && (
        <div class="progress tone-bad" role="alert">
          <strong>The program failed</strong>
          <pre class="code">{failure}</pre>
        </div>
      )}
    </Card>
  );
}

/** Waits until a program has submitted its first job. Returns null if it ended without one. @throws ApiError */
async function firstJob(applicationid: string): Promise<string | null> {
  const path = { applicationid };
  for (;;) {
    let application: Application;
    try {
      application = await get("/applications/{applicationid}", { path });
    } catch (error) {
      if (noteError(error).status !== 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      continue;
    }
    const [job] = application.jobs;
    if (job) return job.jid;
    if (application.status === "FAILED") {
      const { exceptionHistory } = await get("/applications/{applicationid}/exceptions", { path });
      throw new ApiError(400, exceptionHistory.entries[0]?.stacktrace ?? "the program gave no reason");
    }
    if (application["end-time"] > 0) return null;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
