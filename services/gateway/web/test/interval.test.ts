import { equal } from "node:assert/strict";
import { test } from "node:test";
import { pollInterval } from "../src/room/interval";

test("polls follow the wait, within the table and a minute", () => {
  for (const [ahead, wait, seconds] of [
    [0, undefined, 2], [500, undefined, 2], [501, undefined, 5], [2_001, undefined, 10], [10_001, undefined, 15], [990_000, undefined, 15],
    [500, 30, 2], [500, 100, 5], [50_000, 600, 30], [50_000, 1_200, 60], [990_000, 19_800, 60],
  ] as const) {
    equal(pollInterval(ahead, wait), seconds, `${ahead} ahead, ${wait} s`);
  }
});
