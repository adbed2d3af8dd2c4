/**
 * One polling loop for the whole page.
 *
 * Components say what they need while they are shown (`useQuery`, `usePolled`). The loop asks for all of it, waits for the
 * answers, and begins again `web.refresh-interval` later. It stops while the tab is hidden. While the server does not
 * answer, it asks for one thing only, until there is an answer.
 */
import { effect, type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { type Answer, ApiError, type GetPath, get, type Parameters, urlOf } from "../api/client";
import { answered, config, loggedIn, notAnswered, silentSince } from "./connection";

export type QueryState<T> = { data: T | undefined; error: ApiError | undefined };

/** Something that the loop asks for while it has users. */
type Polled = { fetch: () => Promise<void>; everyMs: number; askedMs: number; users: number };
type Query = Polled & { state: Signal<QueryState<unknown>> };

const DEFAULT_INTERVAL_MS = 3_000;
/** While the server is away, how often the loop looks whether it is back. */
const RETRY_MS = 1_000;
/** Faster polls cannot see more, because the server keeps its answers for `web.refresh-interval`. */
export const refreshIntervalMs = signal(DEFAULT_INTERVAL_MS);

/** Answers that are kept for a page that is opened again. */
const MAX_QUERIES = 100;

const polled = new Set<Polled>();
/** By URL, in the order in which they were first asked. */
const queries = new Map<string, Query>();
let timer: number | undefined;
let isAsking = false;

async function ask(one: Polled): Promise<void> {
  one.askedMs = Date.now();
  await one.fetch();
}

/** Takes note of what an error says about the connection. */
export function noteError(error: unknown): ApiError {
  const known = error instanceof ApiError ? error : new ApiError(0, String(error));
  if (known.status === 0) notAnswered();
  else if (known.status === 401) loggedIn.value = false;
  else answered();
  return known;
}

async function round(): Promise<void> {
  timer = undefined;
  if (isAsking || document.hidden) return;
  isAsking = true;
  try {
    const now = Date.now();
    // Half an interval early is in time: rounds have no fixed length.
    let due = [...polled].filter((one) => now - one.askedMs >= one.everyMs - refreshIntervalMs.value / 2);
    if (silentSince.value !== null || !loggedIn.value || config.value === null) {
      await askConfig();
      if (silentSince.value !== null || !loggedIn.value) due = [];
      else due = [...polled];
    }
    await Promise.all(due.map(ask));
  } finally {
    isAsking = false;
    schedule();
  }
}

function schedule(delayMs = silentSince.value === null ? refreshIntervalMs.value : RETRY_MS): void {
  if (timer !== undefined) clearTimeout(timer);
  timer = document.hidden ? undefined : window.setTimeout(() => void round(), delayMs);
}

document.addEventListener("visibilitychange", () => schedule(0));

/** Asks what the server is and offers. The pages are shown when it is known. */
async function askConfig(): Promise<void> {
  try {
    const answer = await get("/config");
    refreshIntervalMs.value = Math.max(500, answer["refresh-interval"]);
    config.value = answer;
    answered();
  } catch (error) {
    noteError(error);
  }
}

/** Starts the loop. */
export function startPolling(): void {
  void askConfig();
  // The first failure of any request makes the loop faster.
  let wasSilent = false;
  effect(() => {
    const isSilent = silentSince.value !== null;
    if (isSilent && !wasSilent) schedule(RETRY_MS);
    wasSilent = isSilent;
  });
  schedule();
}

function use(one: Polled): () => void {
  one.users++;
  polled.add(one);
  const isFresh = Date.now() - one.askedMs < refreshIntervalMs.value / 2;
  if (silentSince.value === null && !isFresh) void ask(one);
  return () => {
    one.users--;
    if (one.users === 0) polled.delete(one);
  };
}

/**
 * Calls `fetch` now and in every round, while the component is shown and `key` stays the same.
 *
 * It must handle its errors, with `noteError`. `useQuery` is simpler wherever one GET is enough.
 */
export function usePolled(key: string | null, fetch: () => Promise<void>): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key says whether `fetch` is another one
  useEffect(() => (key === null ? undefined : use({ fetch, everyMs: 0, askedMs: 0, users: 0 })), [key]);
}

function queryOf(url: string, fetch: () => Promise<unknown>, everyMs: number): Query {
  let query = queries.get(url);
  if (!query) {
    const state = signal<QueryState<unknown>>({ data: undefined, error: undefined });
    const asking = async () => {
      try {
        const data = await fetch();
        answered();
        state.value = { data, error: undefined };
      } catch (error) {
        state.value = { data: state.value.data, error: noteError(error) };
      }
    };
    query = { fetch: asking, everyMs, askedMs: 0, users: 0, state };
    queries.set(url, query);
    const unused = [...queries].find(([, one]) => one.users === 0 && one !== query);
    if (queries.size > MAX_QUERIES && unused) queries.delete(unused[0]);
  }
  return query;
}

/**
 * Returns the answer of a GET, which is asked for again in every round. `data` stays when a later request fails.
 *
 * Components that ask for the same URL share its requests. A page that is opened again begins with the last answer.
 *
 * @param path null: nothing is asked for
 * @param everyMs at most this often, for what changes seldom
 */
export function useQuery<P extends GetPath>(
  path: P | null,
  parameters: Parameters = {},
  everyMs = 0,
): QueryState<Answer<P>> {
  const url = path === null ? null : urlOf(path, parameters);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the URL stands for path and parameters
  const query = useMemo(() => (url === null ? null : queryOf(url, () => get(path as P, parameters), everyMs)), [url]);
  useEffect(() => (query === null ? undefined : use(query)), [query]);
  return (query === null ? NOTHING : query.state.value) as QueryState<Answer<P>>;
}

const NOTHING: QueryState<unknown> = { data: undefined, error: undefined };

/** Asks for everything now, e.g. after an action. */
export function refresh(): void {
  for (const one of polled) one.askedMs = 0;
  schedule(0);
}
