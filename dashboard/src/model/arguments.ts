/** Splits a command line into arguments, as a shell does with quotes and backslashes. Pure. */

/** @throws Error if a quote is not closed. */
export function splitArguments(line: string): string[] {
  const found: string[] = [];
  let current: string | null = null;
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const char = line[at] as string;
    if (quote) {
      if (char === quote) quote = "";
      else if (char === "\\" && quote === '"' && /["\\]/.test(line[at + 1] ?? ""))
        current = `${current ?? ""}${line[++at]}`;
      else current = `${current ?? ""}${char}`;
    } else if (char === "'" || char === '"') {
      quote = char;
      current ??= "";
    } else if (char === "\\" && at + 1 < line.length) {
      current = `${current ?? ""}${line[++at]}`;
    } else if (/\s/.test(char)) {
      if (current !== null) found.push(current);
      current = null;
    } else {
      current = `${current ?? ""}${char}`;
    }
  }
  if (quote) throw new Error(`the quote ${quote} is not closed`);
  if (current !== null) found.push(current);
  return found;
}

/** Reads lines `key: value` or `key=value`. @throws Error that names a line that is neither. */
export function readOptions(text: string): Record<string, string> {
  const options: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const trimmed = line.trim();
    if (!trimmed || trimmed.startsWith("#")) continue;
    const match = /^([^\s:=]+)\s*[:=]\s*(.*)$/.exec(trimmed);
    if (!match) throw new Error(`“${trimmed}” is not of the form key: value`);
    options[match[1] as string] = match[2] as string;
  }
  return options;
}
