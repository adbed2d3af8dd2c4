/** Numbers, sizes, times and durations as people read them. Pure. */

const UNITS = ["", "K", "M", "G", "T", "P"];
export const UNKNOWN = "–";

/** 1234567 becomes 1.23 M. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (Math.abs(value) < 10_000)
    return Number.isInteger(value) ? String(value) : value.toPrecision(3).replace(/\.0+$/, "");
  let unit = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit++;
  }
  return `${scaled.toPrecision(3)} ${UNITS[unit]}`;
}

export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  return `${value > 0 && value < 10 ? value.toFixed(1) : count(Math.round(value))}/s`;
}

/** 1048576 becomes 1.00 MiB. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || value < 0 || Number.isNaN(value)) return UNKNOWN;
  if (value < 1024) return `${Math.round(value)} B`;
  let unit = 0;
  let scaled = value;
  while (scaled >= 1023.5 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit++;
  }
  return `${scaled.toPrecision(scaled >= 1000 ? 4 : 3)} ${UNITS[unit]}iB`;
}

/** 3723000 becomes 1h 2m. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || ms < 0 || Number.isNaN(ms)) return UNKNOWN;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const parts: [number, string][] = [
    [Math.floor(s / 86_400), "d"],
    [Math.floor(s / 3_600) % 24, "h"],
    [Math.floor(s / 60) % 60, "m"],
    [Math.floor(s) % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .map(([value, unit]) => `${value}${unit}`)
    .join(" ");
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** The local time; with the date unless it is today. Flink has -1 and 0 for times that are not known. */
export function time(ms: number | null | undefined, now = Date.now()): string {
  if (!ms || ms <= 0) return UNKNOWN;
  const at = new Date(ms);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date(now).toDateString() ? clock : `${date(at)} ${clock}`;
}

export function dateTime(ms: number | null | undefined): string {
  if (!ms || ms <= 0) return UNKNOWN;
  const at = new Date(ms);
  return `${date(at)} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

function date(at: Date): string {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined || Number.isNaN(share) ? UNKNOWN : `${Math.round(share * 100)} %`;
}

/** Flink's minimum of a long: no watermark has arrived. */
const NO_WATERMARK = -9_223_372_036_854_775_000;
/** Flink's maximum of a long: the input has ended. */
const LAST_WATERMARK = 9_223_372_036_854_775_000;

/** A watermark as event time, with the date unless it is today. */
export function watermark(value: number | null | undefined, now = Date.now()): string {
  if (value === null || value === undefined || Number.isNaN(value) || value <= NO_WATERMARK) return "none";
  if (value >= LAST_WATERMARK) return "end";
  if (value <= 946_684_800_000 || value >= 32_503_680_000_000) return String(value);
  const [day, clock] = dateTime(value).split(" ");
  return day === date(new Date(now)) ? (clock ?? "") : `${day} ${clock}`;
}

export function plural(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
