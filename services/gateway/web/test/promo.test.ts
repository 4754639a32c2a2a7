import "./browser";
import { equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { spreadOver, type State, untilChange, untilResult } from "../src/promo/state";
import type { Promotion } from "../src/lib/types";

test("at the announcement the questions are spread over the number of entries", () => {
  for (const [entries, seconds] of [[0, 2], [5_000, 2], [100_000, 10], [1_000_000, 60]] as const) {
    const over = spreadOver(entries);
    equal(over, seconds, `${entries} entries`);
    for (let i = 0; i < 100; i++) {
      const wait = untilResult(30_000, over);
      ok(wait >= 31 && wait <= 31 + over, `${wait} s`);
      ok(untilResult(-1, over) >= 3, "overdue");
    }
  }
});

test("a promotion without places is asked for no more", () => {
  const now = Date.now();
  const promotion: Promotion = {
    eventId: "e", title: "Shoes", eventType: "FIRST_COME", capacityTotal: 5, status: "Open",
    opensAt: new Date(now - 1000).toISOString(), closesAt: new Date(now + 600_000).toISOString(),
  };
  const state = (remaining: number): State => ({ promotion: { ...promotion, remaining }, own: undefined, draw: undefined, signedIn: true, advised: 0 });
  ok((untilChange(state(3)) ?? 0) > 0);
  equal(untilChange(state(0)), undefined);
});
