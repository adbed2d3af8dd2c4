import { expect, test } from "vitest";
import { arranged, type Column } from "../src/components/data_table";

type Row = { name: string; size: number };
const columns: Column<Row>[] = [
  { id: "name", title: "Name", sort: (row) => row.name, render: (row) => row.name },
  { id: "size", title: "Size", isNumber: true, sort: (row) => row.size, render: (row) => row.size },
];
const rows: Row[] = [
  { name: "b10", size: 2 },
  { name: "b9", size: Number.NaN },
  { name: "a", size: 10 },
];

test("rows are sorted by number and by text with numbers in it", () => {
  expect(arranged(rows, columns, "name", "").map((row) => row.name)).toEqual(["a", "b9", "b10"]);
  expect(arranged(rows, columns, "-size", "").map((row) => row.name)).toEqual(["a", "b10", "b9"]);
});

test("the filter looks into all columns and ignores case", () => {
  expect(arranged(rows, columns, "", "B").map((row) => row.name)).toEqual(["b10", "b9"]);
  expect(arranged(rows, columns, "", "10").map((row) => row.name)).toEqual(["b10", "a"]);
});
