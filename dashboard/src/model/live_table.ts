/** The client's half of a live table: takes changes into the columns that it has. Pure. */

export type Cell = number | string | null;
export type Columns = Record<string, readonly Cell[]>;
export type ColumnChange = readonly Cell[] | { rows: readonly number[]; values: readonly Cell[] };

/** Returns the columns after an answer. Columns that did not change stay the same objects. */
export function changed(columns: Columns, isFull: boolean, changes: Record<string, ColumnChange>): Columns {
  const next: Record<string, readonly Cell[]> = isFull ? {} : { ...columns };
  for (const [name, change] of Object.entries(changes)) {
    if ("rows" in change) {
      const cells = [...(next[name] ?? [])];
      change.rows.forEach((row, index) => {
        cells[row] = change.values[index] ?? null;
      });
      next[name] = cells;
    } else {
      next[name] = change;
    }
  }
  return next;
}

/** Returns a cell that is a number; null: it is not known. */
export function numberAt(columns: Columns, name: string, row: number): number | null {
  const cell = columns[name]?.[row];
  return typeof cell === "number" ? cell : null;
}

export function textAt(columns: Columns, name: string, row: number): string {
  return String(columns[name]?.[row] ?? "");
}
