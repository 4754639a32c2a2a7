import "./browser";
import { equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { type State, untilChange } from "../src/promo/state";
import type { Promotion } from "../src/lib/types";

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
