import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Answer, type ApiError, get } from "../api/client";
import { type Column, DataTable } from "../components/data_table";
import { Message, NoData } from "../components/message";
import { FlameChart } from "../flame/chart";
import { find, type Hot, hotFunctions, matchingSamples, simplify, type View } from "../flame/tree";
import { duration, percent, plural, time } from "../format/format";
import { answered } from "../state/connection";
import { noteError, usePolled } from "../state/polling";
import type { VertexTabProps } from "./vertex_tabs";

type FlameGraph = Answer<"/jobs/{jobid}/vertices/{vertexid}/flamegraph">;

const PATH = "/jobs/{jobid}/vertices/{vertexid}/flamegraph";
/** The same samples are asked for again this often; they are renewed once a minute. */
const CALM_MS = 10_000;
/** Functions in the table below the graph. */
const MAX_HOT = 12;

const TYPES = [
  { id: "FULL", title: "All", hint: "All samples of the threads of the tasks" },
  { id: "ON_CPU", title: "On CPU", hint: "Samples of code that runs" },
  {
    id: "OFF_CPU",
    title: "Waiting",
    hint: "Samples of code that waits, e.g. for records, locks, files or other services",
  },
];

/** Values of `endTimestamp` without samples. */
const ENDED = -1;
const SWITCHED_OFF = -2;

/** Asks for a flame graph: in every round while samples are taken, and seldom while they stay the same. */
function useFlameGraph(jobid: string, vertexid: string, type: string, subtask: string) {
  const [state, setState] = useState<{ key: string; data?: FlameGraph; error?: ApiError }>({ key: "" });
  const key = [jobid, vertexid, type, subtask].join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: another key has not been asked for yet
  const asked = useMemo(() => ({ atMs: 0, isCalm: false }), [key]);
  usePolled(key, async () => {
    if (asked.isCalm && Date.now() - asked.atMs < CALM_MS) return;
    asked.atMs = Date.now();
    try {
      const query = { type, subtaskindex: subtask === "" ? undefined : subtask };
      const data = await get(PATH, { path: { jobid, vertexid }, query });
      answered();
      asked.isCalm = data.endTimestamp > 0 && !data.isSampling;
      setState({ key, data });
    } catch (error) {
      const noted = noteError(error);
      setState((last) => ({ key, data: last.key === key ? last.data : undefined, error: noted }));
    }
  });
  return state.key === key ? state : { data: undefined, error: undefined };
}

/** What the Python code of a vertex or a subtask is doing. */
export default function VertexFlameGraph(props: VertexTabProps): VNode {
  return <FlameGraphOfVertex key={props.vertexid} {...props} />;
}

function FlameGraphOfVertex({ jobid, vertexid, vertex }: VertexTabProps): VNode {
  const [type, setType] = useState("FULL");
  const [subtask, setSubtask] = useState("");
  const [look, setLook] = useState<Look>({ showsRuntime: false, showsLines: false, text: "", zoomPath: "" });
  const { data, error } = useFlameGraph(jobid, vertexid, type, subtask);
  return (
    <section class="card flame-card" aria-label="Flame graph">
      <div class="flame-tools">
        <fieldset class="segments" aria-label="Samples">
          {TYPES.map((one) => (
            <button
              key={one.id}
              type="button"
              title={one.hint}
              aria-pressed={one.id === type}
              onClick={() => setType(one.id)}
            >
              {one.title}
            </button>
          ))}
        </fieldset>
        <label>
          <span class="visually-hidden">Subtask</span>
          <select value={subtask} onChange={(event) => setSubtask(event.currentTarget.value)}>
            <option value="">All {plural(vertex.parallelism, "subtask")}</option>
            {Array.from({ length: vertex.parallelism }, (_, index) => (
              <option key={String(index)} value={String(index)}>
                Subtask {index}
              </option>
            ))}
          </select>
        </label>
        {data?.data && <SampleFacts graph={data} parallelism={subtask === "" ? vertex.parallelism : 1} />}
      </div>
      {data?.data ? (
        <Graph root={data.data} look={look} onLook={(change) => setLook((last) => ({ ...last, ...change }))} />
      ) : data ? (
        <NoSamples graph={data} />
      ) : (
        <NoData error={error} what="The flame graph" />
      )}
    </section>
  );
}

/** How many samples there are, how old they are, and what is missing. */
function SampleFacts({ graph, parallelism }: { graph: FlameGraph; parallelism: number }): VNode {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const seconds = graph.endTimestamp - (graph.startTimestamp ?? graph.endTimestamp);
  const missing =
    graph.unreachable.length > 0
      ? `Partial: no answer from ${graph.unreachable.join(", ")}`
      : graph.subtasks < parallelism
        ? `Partial: ${graph.subtasks} of ${plural(parallelism, "subtask")} ran`
        : "";
  return (
    <p class="flame-facts">
      {missing && <span class="badge tone-warn">{missing}</span>}
      {graph.error && <span class="badge tone-bad">No newer samples: {graph.error}</span>}
      <span class="muted">
        {plural(graph.data?.value ?? 0, "sample")} in {duration(seconds)}, taken{" "}
        <time dateTime={new Date(graph.endTimestamp).toISOString()} title={time(graph.endTimestamp)}>
          {duration(Math.max(0, now - graph.endTimestamp))} ago
        </time>
      </span>
      {graph.isSampling && <span class="badge tone-active">Sampling</span>}
    </p>
  );
}

function NoSamples({ graph }: { graph: FlameGraph }): VNode {
  if (graph.endTimestamp === ENDED) {
    return <Message title="This vertex has ended">Flame graphs show what tasks are doing now.</Message>;
  }
  if (graph.endTimestamp === SWITCHED_OFF) {
    return (
      <Message title="Flame graphs are switched off">
        The option <code>rest.flamegraph.enabled</code> of the cluster is false.
      </Message>
    );
  }
  if (graph.error) return <Message title="There are no samples">{graph.error}</Message>;
  return (
    <div class="message" role="status">
      <div class="loading" />
      <h2>Taking samples</h2>
      <p>The stacks of the tasks are read for some seconds.</p>
    </div>
  );
}

/** How the user looks at the graph, which stays when other samples are shown. */
type Look = View & { text: string; zoomPath: string };

function Graph(props: {
  root: NonNullable<FlameGraph["data"]>;
  look: Look;
  onLook: (change: Partial<Look>) => void;
}): VNode {
  const { root: answer, onLook } = props;
  const { showsRuntime, showsLines, text, zoomPath } = props.look;
  const root = useMemo(() => simplify(answer, { showsRuntime, showsLines }), [answer, showsRuntime, showsLines]);
  const zoomed = useMemo(() => find(root, zoomPath), [root, zoomPath]);
  const wanted = text.trim().toLowerCase();
  if (!root.value) return <Message title="No such samples">No thread was seen in this state.</Message>;
  return (
    <>
      <div class="flame-tools">
        <input
          type="search"
          placeholder="Find functions"
          aria-label="Find functions"
          value={text}
          onInput={(event) => onLook({ text: event.currentTarget.value })}
        />
        {wanted && (
          <span role="status">{percent(matchingSamples(zoomed, wanted) / zoomed.value)} of the samples match</span>
        )}
        <label class="check">
          <input
            type="checkbox"
            checked={showsRuntime}
            onChange={(event) => onLook({ showsRuntime: event.currentTarget.checked })}
          />
          Frames of flinkpy
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={showsLines}
            onChange={(event) => onLook({ showsLines: event.currentTarget.checked })}
          />
          Lines
        </label>
        <button type="button" class="button" disabled={zoomed === root} onClick={() => onLook({ zoomPath: "" })}>
          Reset zoom
        </button>
        <span class="flame-legend" aria-hidden="true">
          <span class="flame-key kind-user" /> user functions
          <span class="flame-key kind-library" /> libraries
          <span class="flame-key kind-runtime" /> flinkpy
        </span>
      </div>
      <FlameChart root={root} zoomed={zoomed} wanted={wanted} onZoom={(node) => onLook({ zoomPath: node.path })} />
      <HotFunctions
        functions={hotFunctions(zoomed)}
        total={zoomed.value}
        onChoose={(chosen) => onLook({ text: chosen })}
      />
    </>
  );
}

/** The functions in which the most time is spent, as a table. */
function HotFunctions(props: { functions: Hot[]; total: number; onChoose: (text: string) => void }): VNode {
  const { functions, total, onChoose } = props;
  const columns = useMemo<Column<Hot>[]>(
    () => [
      {
        id: "name",
        title: "Function",
        width: "minmax(18rem, 4fr)",
        sort: (one) => one.name,
        render: (one) => (
          <button type="button" class="link mono" title={one.name} onClick={() => onChoose(one.name)}>
            {one.name}
          </button>
        ),
      },
      { id: "kind", title: "Code", width: "minmax(6rem, 1fr)", sort: (one) => one.kind, render: (one) => one.kind },
      {
        id: "self",
        title: "In itself",
        isNumber: true,
        width: "minmax(6rem, 1fr)",
        sort: (one) => one.self,
        render: (one) => percent(one.self / total),
      },
      {
        id: "total",
        title: "With callees",
        isNumber: true,
        width: "minmax(6rem, 1fr)",
        sort: (one) => one.total,
        render: (one) => percent(one.total / total),
      },
    ],
    [total, onChoose],
  );
  return (
    <DataTable
      label="Functions"
      columns={columns}
      rows={functions.slice(0, MAX_HOT)}
      rowKey={(one) => one.name}
      initialSort="-self"
    />
  );
}
