/** Short messages about what the user has just done. */
import { signal } from "@preact/signals";
import { ApiError } from "../api/client";

export type Toast = { id: number; kind: "success" | "error"; text: string };

/** Errors stay until they are closed. */
const SUCCESS_MS = 5_000;

export const toasts = signal<Toast[]>([]);
let lastId = 0;

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function succeed(text: string): void {
  const id = ++lastId;
  toasts.value = [...toasts.value, { id, kind: "success", text }];
  setTimeout(() => dismiss(id), SUCCESS_MS);
}

/** Shows an error of an action. A role that is too low is said in the words of the server. */
export function fail(what: string, error: unknown): void {
  const reason =
    error instanceof ApiError && error.status === 0
      ? "the cluster does not answer"
      : String((error as Error).message ?? error);
  toasts.value = [...toasts.value, { id: ++lastId, kind: "error", text: `${what}: ${reason}` }];
}
