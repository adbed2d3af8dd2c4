/** The server: whether it answers, whether this browser is logged in, and what it offers. */
import { computed, signal } from "@preact/signals";
import type { Answer } from "../api/client";

/** Since when (ms since the epoch) the server has not answered; null: it does. */
export const silentSince = signal<number | null>(null);
/** False if the session has ended: only `flinkpy dashboard` makes a new one. */
export const loggedIn = signal(true);
/** The answer of `GET /config`; null: not known yet. */
export const config = signal<Answer<"/config"> | null>(null);
/** True if the server shows archives of ended jobs: it has no processes, no logs, no metrics, and changes nothing. */
export const isHistory = computed(() => config.value?.features["web-history"] === true);
/** The time of the last answer. */
let lastAnswerMs = Date.now();

export function answered(): void {
  lastAnswerMs = Date.now();
  silentSince.value = null;
  loggedIn.value = true;
}

export function notAnswered(): void {
  silentSince.value ??= lastAnswerMs;
}
