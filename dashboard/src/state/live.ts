/** Polls of tables that send only what changed: see `GET /jobs/{jobid}/live`. */
import { type Signal, signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { type ApiError, type GetPath, get, type Parameters, urlOf } from "../api/client";
import { type ColumnChange, type Columns, changed } from "../model/live_table";
import { answered } from "./connection";
import { noteError, usePolled } from "./polling";

type LivePath = Extract<GetPath, `${string}/live`>;

export type Live = {
  columns: Columns;
  /** The state of the job; empty in the table of a vertex. */
  state: string;
  /** The server's clock at the last answer, in ms since the epoch. */
  now: number;
  /** How old the values are, in ms. They grow old if the JobMaster does not answer. */
  age: number;
};

export type LiveState = { data: Live | undefined; error: ApiError | undefined };

/**
 * Returns the live table of a job or vertex. Of its parts those that have not changed are the same objects as before.
 *
 * @param path null: nothing is asked for
 */
export function useLive(path: LivePath | null, parameters: Parameters): LiveState {
  const url = path === null ? null : urlOf(path, parameters);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a table for each URL
  const table = useMemo(
    () => ({
      version: undefined as string | undefined,
      state: signal<LiveState>({ data: undefined, error: undefined }),
    }),
    [url],
  );
  const state: Signal<LiveState> = table.state;
  usePolled(url && `live ${url}`, async () => {
    if (path === null) return;
    try {
      const answer = await get(path, { ...parameters, query: { since: table.version } });
      answered();
      table.version = answer.version;
      state.value = {
        data: {
          columns: changed(
            state.value.data?.columns ?? {},
            answer.full,
            answer.columns as Record<string, ColumnChange>,
          ),
          state: "state" in answer ? String(answer.state) : "",
          now: answer.now,
          age: answer.age,
        },
        error: undefined,
      };
    } catch (error) {
      state.value = { data: state.value.data, error: noteError(error) };
    }
  });
  return state.value;
}
