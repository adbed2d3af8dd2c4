import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get } from "../api/client";
import { Card } from "../components/card";
import { Message, NoData } from "../components/message";
import { TimePlot } from "../components/time_plot";
import { bytes, count, watermark } from "../format/format";
import { extended, type History, linesOf, NO_HISTORY, type Sample } from "../model/series";
import { answered } from "../state/connection";
import { noteError, usePolled, useQuery } from "../state/polling";
import type { VertexTabProps } from "./vertex_tabs";

const KEY = "flinkpy-metrics";
const USUAL = [
  "numRecordsInPerSecond",
  "numRecordsOutPerSecond",
  "busyTimeMsPerSecond",
  "backPressuredTimeMsPerSecond",
];
const MAX_CHOSEN = 12;
const AGGREGATES = ["max", "avg", "min"] as const;
const NAMES_MS = 30_000;

function stored(): string[] {
  try {
    const names: unknown = JSON.parse(localStorage.getItem(KEY) ?? "null");
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : USUAL;
  } catch {
    return USUAL; // written by another version
  }
}

/** Metrics that the user picks, over time. The cluster keeps no history: plots begin when the page is opened. */
export default function VertexMetrics({ jobid, vertexid }: VertexTabProps): VNode {
  const path = { jobid, vertexid };
  const names = useQuery("/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics", { path }, NAMES_MS);
  const [chosen, setChosen] = useState(stored);
  const [history, setHistory] = useState<History>(NO_HISTORY);
  const known = useMemo(() => (names.data ?? []).map((metric) => metric.id), [names.data]);
  const shown = chosen.filter((name) => known.includes(name));
  const query = { get: shown.join(","), agg: "min,max,avg,sum" };
  usePolled(shown.length ? `metrics ${jobid} ${vertexid} ${query.get}` : null, async () => {
    try {
      const found = await get("/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics", { path, query });
      answered();
      const sample: Sample = {};
      for (const { id, min, max, avg, sum } of found) {
        if (min !== undefined && max !== undefined && avg !== undefined && sum !== undefined) {
          sample[id] = { min, max, avg, sum };
        }
      }
      setHistory((before) => extended(before, Date.now(), sample));
    } catch (error) {
      noteError(error);
    }
  });
  function choose(next: string[]): void {
    setChosen(next);
    localStorage.setItem(KEY, JSON.stringify(next));
  }
  if (!names.data) return <NoData error={names.error} what="The list of metrics" />;
  if (!known.length) return <Message title="There are no metrics">Only tasks that run have metrics.</Message>;
  return (
    <>
      <section class="card metric-picker" aria-label="Metrics to show">
        <Picker
          known={known.filter((name) => !chosen.includes(name))}
          isFull={chosen.length >= MAX_CHOSEN}
          onPick={(name) => choose([...chosen, name])}
        />
      </section>
      <div class="plots">
        {shown.map((name) => (
          <Card
            key={name}
            title={name}
            aside={
              <button
                type="button"
                class="icon-button"
                aria-label={`Remove ${name}`}
                onClick={() => choose(chosen.filter((other) => other !== name))}
              >
                ×
              </button>
            }
          >
            <TimePlot
              label={`${name} over time: maximum, mean and minimum of the subtasks`}
              lines={["max", "mean", "min"]}
              data={linesOf(history, name, AGGREGATES)}
              text={textOf(name)}
            />
          </Card>
        ))}
      </div>
    </>
  );
}

/** Returns how values of a metric are written: by its name, because metrics have no units. */
function textOf(name: string): (value: number | null) => string {
  if (/bytes|size|memory|heap/i.test(name) && !/PerSecond/.test(name)) return bytes;
  if (/watermark$/i.test(name)) return watermark;
  return count;
}

function Picker(props: { known: string[]; isFull: boolean; onPick: (name: string) => void }): VNode {
  const [text, setText] = useState("");
  function pick(name: string): void {
    setText(name);
    if (!props.known.includes(name)) return;
    props.onPick(name);
    setText("");
  }
  return (
    <>
      <label for="metric-name">Add a metric</label>
      <input
        id="metric-name"
        list="metric-names"
        placeholder={`Type a part of its name; there are ${props.known.length} more`}
        value={text}
        disabled={props.isFull}
        onInput={(event) => pick(event.currentTarget.value)}
      />
      <datalist id="metric-names">
        {props.known.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}
