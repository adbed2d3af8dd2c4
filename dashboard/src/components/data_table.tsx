import type { ComponentChildren, VNode } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

export type Column<T> = {
  id: string;
  title: string;
  /** What the cell shows. */
  render: (row: T) => ComponentChildren;
  /** By what rows are sorted; without it they cannot be. */
  sort?: (row: T) => number | string;
  /** Text in which the filter looks; without it that of `sort`. */
  text?: (row: T) => string;
  /** A length or `minmax(LENGTH, 1fr)`. */
  width?: string;
  isNumber?: boolean;
};

/** Tables with more rows build only those that can be seen. */
const MAX_WHOLE_ROWS = 60;
const ROW_HEIGHT_PX = 36;
const VIEWPORT_PX = 560;
/** Rows beyond the edges, so that scrolling shows no gaps. */
const MARGIN_ROWS = 8;

export type DataTableProps<T> = {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string | number;
  /** The id of the column to sort by at first; `-` before it: descending. */
  initialSort?: string;
  /** Shows a field that filters rows. */
  filter?: boolean;
  empty?: string;
  isSelected?: (row: T) => boolean;
};

/** A table that is sorted and filtered by the user. Only the rows in sight are in the document. */
export function DataTable<T>(props: DataTableProps<T>): VNode {
  const { columns, rows } = props;
  const [sort, setSort] = useState(props.initialSort ?? "");
  const [filter, setFilter] = useState("");
  const [top, setTop] = useState(0);
  const viewport = useRef<HTMLDivElement>(null);

  const shown = useMemo(() => arranged(rows, columns, sort, filter), [rows, columns, sort, filter]);
  const isVirtual = shown.length > MAX_WHOLE_ROWS;
  const first = isVirtual ? Math.max(0, Math.floor(top / ROW_HEIGHT_PX) - MARGIN_ROWS) : 0;
  const last = isVirtual
    ? Math.min(shown.length, Math.ceil((top + VIEWPORT_PX) / ROW_HEIGHT_PX) + MARGIN_ROWS)
    : shown.length;
  const widths = columns.map((column) => column.width ?? "minmax(7rem, 1fr)");
  const line = { gridTemplateColumns: widths.join(" "), minWidth: minWidthOf(widths) };

  return (
    <div class="data-table">
      {props.filter && (
        <div class="table-tools">
          <input
            type="search"
            placeholder="Filter"
            aria-label={`Filter ${props.label}`}
            value={filter}
            onInput={(event) => {
              setFilter(event.currentTarget.value);
              viewport.current?.scrollTo({ top: 0 });
            }}
          />
          <span class="muted">{shown.length === rows.length ? rows.length : `${shown.length} of ${rows.length}`}</span>
        </div>
      )}
      <div
        class={isVirtual ? "table-viewport virtual" : "table-viewport"}
        style={isVirtual ? { maxHeight: `${VIEWPORT_PX}px` } : undefined}
        ref={viewport}
        onScroll={isVirtual ? (event) => setTop(event.currentTarget.scrollTop) : undefined}
        tabIndex={isVirtual ? 0 : undefined}
      >
        {/* biome-ignore lint/a11y/useSemanticElements: rows of a virtual table are placed one by one */}
        <div role="table" aria-label={props.label} aria-rowcount={shown.length + 1}>
          {/* biome-ignore lint/a11y/useSemanticElements: as above */}
          <div role="row" class="table-head" style={line} tabIndex={-1}>
            {columns.map((column) => (
              <Heading key={column.id} column={column} sort={sort} onSort={setSort} />
            ))}
          </div>
          {/* biome-ignore lint/a11y/useSemanticElements: as above */}
          <div
            role="rowgroup"
            style={isVirtual ? { height: `${shown.length * ROW_HEIGHT_PX}px`, position: "relative" } : undefined}
          >
            {shown.slice(first, last).map((row, index) => (
              // biome-ignore lint/a11y/useSemanticElements: as above
              <div
                role="row"
                tabIndex={-1}
                key={props.rowKey(row)}
                aria-rowindex={first + index + 2}
                class={props.isSelected?.(row) ? "table-row selected" : "table-row"}
                style={{
                  ...line,
                  ...(isVirtual && {
                    position: "absolute",
                    top: `${(first + index) * ROW_HEIGHT_PX}px`,
                    height: `${ROW_HEIGHT_PX}px`,
                    left: 0,
                    right: 0,
                  }),
                }}
              >
                {columns.map((column) => (
                  // biome-ignore lint/a11y/useSemanticElements: as above
                  <div role="cell" key={column.id} class={column.isNumber ? "number" : ""}>
                    {column.render(row)}
                  </div>
                ))}
              </div>
            ))}
          </div>
        </div>
        {shown.length === 0 && (
          <p class="table-empty">
            {filter ? "Nothing matches the filter." : (props.empty ?? "There is nothing to show.")}
          </p>
        )}
      </div>
    </div>
  );
}

/** Rows are grids of their own, so they must be equally wide: as wide as the columns at least. The gaps are those of the CSS. */
function minWidthOf(widths: string[]): string {
  const minima = widths.map((width) => /^minmax\(([^,]+),/.exec(width)?.[1] ?? width);
  return `calc(${minima.join(" + ")} + ${widths.length - 1}rem + 2.3rem)`;
}

function Heading<T>(props: { column: Column<T>; sort: string; onSort: (sort: string) => void }): VNode {
  const { column, sort } = props;
  const direction = sort === column.id ? "ascending" : sort === `-${column.id}` ? "descending" : undefined;
  return (
    // biome-ignore lint/a11y/useSemanticElements: rows of a virtual table are placed one by one
    <div role="columnheader" tabIndex={-1} aria-sort={direction} class={column.isNumber ? "number" : ""}>
      {column.sort ? (
        <button type="button" onClick={() => props.onSort(nextSort(column, direction))}>
          {column.title}
          <span aria-hidden="true" class="sort-mark">
            {direction === "ascending" ? "▲" : direction === "descending" ? "▼" : ""}
          </span>
        </button>
      ) : (
        column.title
      )}
    </div>
  );
}

/** Numbers begin with the largest, texts with A. */
function nextSort<T>(column: Column<T>, direction: string | undefined): string {
  if (direction === undefined) return column.isNumber ? `-${column.id}` : column.id;
  return direction === "ascending" ? `-${column.id}` : column.id;
}

/** Returns the rows that match the filter, in order. */
export function arranged<T>(rows: readonly T[], columns: Column<T>[], sort: string, filter: string): T[] {
  const wanted = filter.trim().toLowerCase();
  const texts = columns.map((column) => column.text ?? column.sort).filter((text) => text !== undefined);
  const found = wanted
    ? rows.filter((row) => texts.some((text) => String(text(row)).toLowerCase().includes(wanted)))
    : [...rows];
  const key = columns.find((column) => column.id === sort.replace(/^-/, ""))?.sort;
  if (!key) return found;
  const sign = sort.startsWith("-") ? -1 : 1;
  return found.sort((a, b) => sign * compared(key(a), key(b)));
}

/** Numbers that are not known come first. */
function compared(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number")
    return (Number.isNaN(a) ? -Infinity : a) - (Number.isNaN(b) ? -Infinity : b) || 0;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
