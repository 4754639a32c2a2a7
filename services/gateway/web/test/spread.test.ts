import { deepEqual, ok } from "node:assert/strict";
import { test } from "node:test";
import cases from "../../../../pkg/spread/testdata/cases.json";
import { again, spreadOver, untilTurn } from "../src/lib/spread";

test("the pages spread a crowd as the gateway does", () => {
  deepEqual(cases.over.map(([crowd = 0, rate = 0]) => [crowd, rate, spreadOver(crowd, rate)]), cases.over);
  deepEqual(cases.again.map(([late = 0, over = 0]) => [late, over, again(late, over)]), cases.again);
});

test("nobody asks before the instant, and everybody within the spread", () => {
  const waits = Array.from({ length: 1000 }, () => untilTurn(30_000, 20));
  ok(waits.every((s) => s >= 31 && s <= 51));
  ok(Math.min(...waits) < 35 && Math.max(...waits) > 45);
});
