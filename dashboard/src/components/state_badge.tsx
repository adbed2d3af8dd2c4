import type { VNode } from "preact";

/** How a state of a job or task looks. */
const TONES: Record<string, string> = {
  RUNNING: "good",
  FINISHED: "done",
  FAILED: "bad",
  FAILING: "bad",
  RESTARTING: "warn",
  CANCELED: "quiet",
  CANCELLING: "warn",
  CANCELING: "warn",
  SUSPENDED: "warn",
  COMPLETED: "done",
  IN_PROGRESS: "active",
};

export function toneOf(state: string): string {
  return TONES[state] ?? "active";
}

/** The state of a job, task or checkpoint. The text says what the colour says. */
export function StateBadge({ state }: { state: string }): VNode {
  return <span class={`badge tone-${toneOf(state)}`}>{state}</span>;
}

/** Counts of tasks by state, e.g. `4 RUNNING`. States without tasks are left out. */
export function TaskCounts({ tasks }: { tasks: Record<string, number> }): VNode {
  const present = Object.entries(tasks).filter(([name, count]) => name !== "total" && count > 0);
  return (
    <span class="task-counts">
      {present.map(([name, count]) => (
        <span key={name} class={`count tone-${toneOf(name.toUpperCase())}`} title={`${count} ${name.toLowerCase()}`}>
          {count}
          <span class="visually-hidden"> {name.toLowerCase()}</span>
        </span>
      ))}
    </span>
  );
}
