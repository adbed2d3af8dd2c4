import type { VNode } from "preact";
import { UNKNOWN } from "../format/format";

type Shares = { busy: number | null; backPressured: number | null; idle: number | null };

/** How the time of tasks is divided, in percent: busy, back-pressured, idle. */
export function LoadBar({ busy, backPressured, idle }: Shares): VNode {
  const text =
    busy === null ? "load not known" : `busy ${busy} %, back-pressured ${backPressured ?? 0} %, idle ${idle ?? 0} %`;
  return (
    <div class="load-bar" role="img" aria-label={text} title={text}>
      <i class="busy" style={{ width: `${busy ?? 0}%` }} />
      <i class="pressured" style={{ width: `${backPressured ?? 0}%` }} />
      <i class="idle" style={{ width: `${idle ?? 0}%` }} />
    </div>
  );
}

export function percentText(value: number | null): string {
  return value === null ? UNKNOWN : `${value} %`;
}

/** The mean over the subtasks, which the bar shows, and the worst subtask where it differs. */
export function LoadText(props: { name: string; mean: number | null; worst: number | null }): VNode {
  const { name, mean, worst } = props;
  return (
    <span title={`${name}: ${percentText(mean)} on average, ${percentText(worst)} in the worst subtask`}>
      {name} <b>{percentText(mean)}</b>
      {worst !== null && worst !== mean && ` (worst ${worst} %)`}
    </span>
  );
}

/** What the colours mean. */
export function LoadLegend(): VNode {
  return (
    <div class="legend" aria-hidden="true">
      <span>
        <i class="busy" /> busy
      </span>
      <span>
        <i class="pressured" /> back-pressured
      </span>
      <span>
        <i class="idle" /> idle
      </span>
    </div>
  );
}
