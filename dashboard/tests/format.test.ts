import { expect, test } from "vitest";
import { bytes, count, duration, rate, time, UNKNOWN, watermark } from "../src/format/format";

test("counts get a unit from ten thousand on", () => {
  expect([0, 9_999, 10_000, 1_234_567, 999_600].map((value) => count(value))).toEqual([
    "0",
    "9999",
    "10.0 K",
    "1.23 M",
    "1.00 M",
  ]);
  expect(count(Number.NaN)).toBe(UNKNOWN);
});

test("sizes are in powers of 1024", () => {
  expect([0, 1023, 1024, 1_048_576, -1].map((value) => bytes(value))).toEqual([
    "0 B",
    "1023 B",
    "1.00 KiB",
    "1.00 MiB",
    UNKNOWN,
  ]);
});

test("durations have at most two units", () => {
  expect([0, 999, 1_500, 59_000, 61_000, 3_723_000, 90_000_000, -1].map((value) => duration(value))).toEqual([
    "0 ms",
    "999 ms",
    "1.5 s",
    "59 s",
    "1m 1s",
    "1h 2m",
    "1d 1h",
    UNKNOWN,
  ]);
});

test("slow rates show a decimal", () => {
  expect([0, 0.25, 12.6, 25_000].map((value) => rate(value))).toEqual(["0/s", "0.3/s", "13/s", "25.0 K/s"]);
});

test("times of another day have their date", () => {
  const now = new Date(2026, 10, 23, 12, 0, 0).getTime();
  expect(time(new Date(2026, 10, 23, 9, 5, 7).getTime(), now)).toBe("09:05:07");
  expect(time(new Date(2026, 10, 22, 9, 5, 7).getTime(), now)).toBe("2026-11-22 09:05:07");
  expect(time(-1, now)).toBe(UNKNOWN);
});

test("the first and the last watermark are words", () => {
  expect(watermark(JSON.parse("-9223372036854775808"))).toBe("none");
  expect(watermark(JSON.parse("9223372036854775807"))).toBe("end");
  expect(watermark(42)).toBe("42");
});
