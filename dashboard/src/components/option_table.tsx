import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schema } from "../api/client";
import { type Column, DataTable } from "./data_table";

type Option = Schema["ExplainedOption"];

const EFFECTS: Record<string, { text: string; tone: string; title: string }> = {
  ACTS: { text: "acts", tone: "good", title: "flinkpy reads this option" },
  IGNORED: { text: "ignored", tone: "quiet", title: "an option of Flink that flinkpy accepts and does not use" },
  UNKNOWN: { text: "unknown", tone: "warn", title: "neither an option of flinkpy nor one of Flink" },
};

/** Options that are set, and whether they do something. */
export function OptionTable({ options, hasSource }: { options: readonly Option[]; hasSource: boolean }): VNode {
  const [only, setOnly] = useState("");
  const counts = useMemo(() => {
    const found: Record<string, number> = {};
    for (const option of options) found[option.effect] = (found[option.effect] ?? 0) + 1;
    return found;
  }, [options]);
  const rows = useMemo(() => options.filter((one) => !only || one.effect === only), [options, only]);
  const columns = useMemo<Column<Option>[]>(
    () => [
      {
        id: "key",
        title: "Key",
        width: "minmax(18rem, 2fr)",
        sort: (one) => one.key,
        text: (one) => `${one.key} ${one.value}`,
        render: (one) => (
          <code title={one.description || undefined} class="key">
            {one.key}
          </code>
        ),
      },
      {
        id: "value",
        title: "Value",
        width: "minmax(12rem, 2fr)",
        sort: (one) => one.value,
        render: (one) => (
          <code title={one.default === null ? one.value : `${one.value} (default: ${one.default})`}>{one.value}</code>
        ),
      },
      {
        id: "effect",
        title: "Effect",
        width: "7rem",
        sort: (one) => one.effect,
        render: (one) => (
          <span class={`badge tone-${EFFECTS[one.effect]?.tone ?? "quiet"}`} title={EFFECTS[one.effect]?.title}>
            {EFFECTS[one.effect]?.text ?? one.effect}
          </span>
        ),
      },
      ...(hasSource
        ? [
            {
              id: "source",
              title: "Set by",
              width: "7rem",
              sort: (one: Option) => one.source,
              render: (one: Option) => (one.source === "JOB" ? "the job" : "the cluster"),
            },
          ]
        : []),
      {
        id: "description",
        title: "What it is",
        width: "minmax(14rem, 3fr)",
        text: (one) => one.description,
        render: (one) => (
          <span class="muted" title={one.description}>
            {one.description}
          </span>
        ),
      },
    ],
    [hasSource],
  );
  return (
    <>
      <fieldset class="chips" aria-label="Effect">
        <button type="button" class="chip" aria-pressed={only === ""} onClick={() => setOnly("")}>
          all <span class="muted">{options.length}</span>
        </button>
        {Object.entries(EFFECTS).map(([effect, { text, title }]) => (
          <button
            type="button"
            key={effect}
            class="chip"
            title={title}
            aria-pressed={only === effect}
            onClick={() => setOnly(effect)}
          >
            {text} <span class="muted">{counts[effect] ?? 0}</span>
          </button>
        ))}
      </fieldset>
      <DataTable label="Options" columns={columns} rows={rows} rowKey={(one) => one.key} initialSort="key" filter />
    </>
  );
}
