/** Splits the end of a log into lines and finds those that match. Pure. */

export type LogLine = { number: number; text: string; tone: "" | "bad" | "warn" };

const BAD = /\b(ERROR|CRITICAL|FATAL)\b/;
const WARN = /\bWARN(ING)?\b/;

/** Lines of a traceback have the tone of the line before them. A first line that is cut is left out. */
export function linesOf(text: string, isWhole: boolean): LogLine[] {
  const texts = text.replace(/\n$/, "").split("\n");
  if (!isWhole && texts.length > 1) texts.shift();
  let tone: LogLine["tone"] = "";
  return texts.map((line, index) => {
    if (/^\s|^Traceback |^\w*(Error|Exception)\b/.test(line) && tone !== "") return { number: index, text: line, tone };
    tone = BAD.test(line) ? "bad" : WARN.test(line) ? "warn" : "";
    return { number: index, text: line, tone };
  });
}

export function matching(lines: LogLine[], wanted: string): LogLine[] {
  const text = wanted.trim().toLowerCase();
  return text ? lines.filter((line) => line.text.toLowerCase().includes(text)) : lines;
}
