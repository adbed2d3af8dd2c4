import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Link } from "wouter-preact";
import { bytes, count, rate, watermark } from "../format/format";
import type { Job, VertexLoad } from "../model/job_model";
import { Facts } from "./card";
import { LoadBar, percentText } from "./load_bar";
import { StateBadge, TaskCounts } from "./state_badge";

/** What a click on a node shows of its vertex. Escape closes it. */
export function VertexDrawer(props: { job: Job; load: VertexLoad; onClose: () => void }): VNode {
  const { job, load, onClose } = props;
  const self = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the focus moves when another vertex is shown
  useEffect(() => self.current?.focus(), [load.id]);
  useEffect(() => {
    const close = (event: KeyboardEvent) => event.key === "Escape" && onClose();
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [onClose]);
  const operators = job["stream-graph"].nodes.filter((node) => node.job_vertex_id === load.id);
  return (
    <aside class="drawer card" aria-label={`Vertex ${load.name}`} tabIndex={-1} ref={self}>
      <header>
        <h2>{load.name}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      <p class="drawer-line">
        <StateBadge state={load.status} /> <TaskCounts tasks={load.tasks} />
      </p>
      <LoadBar busy={load.busy} backPressured={load.backPressured} idle={load.idle} />
      <Facts
        facts={[
          ["Busy, mean and worst subtask", `${percentText(load.busy)}, ${percentText(load.busyMax)}`],
          [
            "Back-pressured, mean and worst subtask",
            `${percentText(load.backPressured)}, ${percentText(load.backPressuredMax)}`,
          ],
          [
            "Records in",
            `${count(load.recordsIn)}${load.recordsInRate === null ? "" : `, ${rate(load.recordsInRate)}`}`,
          ],
          [
            "Records out",
            `${count(load.recordsOut)}${load.recordsOutRate === null ? "" : `, ${rate(load.recordsOutRate)}`}`,
          ],
          ["Bytes in / out", `${bytes(load.bytesIn)} / ${bytes(load.bytesOut)}`],
          ["Watermark", watermark(load.watermark)],
          ["Parallelism", load.parallelism],
        ]}
      />
      {operators.length > 0 && (
        <>
          <h3>Operators</h3>
          <ol class="operators">
            {operators.map((operator) => (
              <li key={operator.id}>{operator.operator}</li>
            ))}
          </ol>
        </>
      )}
      <Link class="button primary" href={`/jobs/${job.jid}/vertices/${load.id}`}>
        Subtasks and metrics
      </Link>
    </aside>
  );
}
