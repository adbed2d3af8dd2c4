/** The colours of the page: those of the operating system, or what the user chose. */
import { effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";

const KEY = "flinkpy-theme";
const ofSystem = window.matchMedia("(prefers-color-scheme: dark)");
const stored = localStorage.getItem(KEY);

const chosen = signal<Theme | null>(stored === "light" || stored === "dark" ? stored : null);
/** The theme that is shown. Plots, which draw on a canvas, depend on it. */
export const theme = signal<Theme>("light");

function update(): void {
  theme.value = chosen.value ?? (ofSystem.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme.value;
}

ofSystem.addEventListener("change", update);
effect(update);

export function toggleTheme(): void {
  chosen.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, chosen.value);
}
