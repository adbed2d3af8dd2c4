/** Whether the cluster answers, and whether this browser is logged in. */
import { signal } from "@preact/signals";

/** Since when (ms since the epoch) the server has not answered; null: it does. */
export const silentSince = signal<number | null>(null);
/** False if the session has ended: only `flinkpy dashboard` makes a new one. */
export const loggedIn = signal(true);
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
