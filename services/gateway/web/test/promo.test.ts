import "./browser";
import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { clock } from "../src/lib/pace";
import { apply, type State, untilChange } from "../src/promo/state";
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

const open: Promotion = {
  eventId: "e", title: "Shoes", eventType: "FIRST_COME", capacityTotal: 5, status: "Open",
  opensAt: new Date(0).toISOString(), closesAt: new Date(Date.now() + 600_000).toISOString(),
};

/** Applies while the server gives these responses in turn; returns the waits in seconds and the codes that were told. */
async function applying(promotion: Promotion, ...answers: [status: number, body: object][]) {
  Object.assign(globalThis, { sessionStorage: { getItem: () => null, setItem: () => undefined, removeItem: () => undefined } });
  const waits: number[] = [];
  const told: string[] = [];
  const keys = new Set<string | null>();
  clock.wait = async (seconds) => void waits.push(seconds);
  globalThis.fetch = async (_, init) => {
    keys.add(new Headers(init?.headers).get("Idempotency-Key"));
    const [status, body] = answers.shift() ?? [500, {}];
    return new Response(JSON.stringify(body), { status });
  };
  const made = await apply(promotion, (failure) => told.push(failure.code)).catch((failure: unknown) => failure);
  equal(keys.size, 1, "one application");
  return { waits, told, made };
}

const accepted: [number, object] = [202, { requestId: "r", status: "QUEUED", uiResult: "PENDING", duplicate: false }];

test("an application is sent at the visitor's own time", async () => {
  const asksAt = String(Date.now() + 30_000);
  const { waits, told, made } = await applying(open, [429, { code: "ASK_LATER", asksAt, retryAfter: 30 }], accepted);
  ok(waits.length === 1 && Math.abs((waits[0] ?? 0) - 30) < 5, String(waits));
  deepEqual(told, ["ASK_LATER"]);
  ok(!(made instanceof Error));
});

test("an application is repeated until the promotion closes", async () => {
  const unavailable: [number, object] = [503, { code: "UNAVAILABLE", retryAfter: 2 }];
  const many = Array.from({ length: 12 }, () => unavailable);
  const { waits, told, made } = await applying(open, ...many, accepted);
  equal(told.length, 12);
  ok(waits.every((seconds) => seconds >= 2), "not before the server advises");
  ok(Math.max(...waits) > 10, "more and more seldom");
  ok(!(made instanceof Error));
  const soon = { ...open, closesAt: new Date(Date.now() + 10_000).toISOString() };
  ok((await applying(soon, ...many, accepted)).waits.every((seconds) => seconds <= 5), "before the end");

  const closed = { ...open, closesAt: new Date(Date.now() - 1000).toISOString() };
  equal((await applying(closed, ...many)).told.length, 3, "a response may be lost at the end");
  const refused = await applying(open, unavailable, [409, { code: "NOT_OPEN" }]);
  ok(refused.made instanceof Error && refused.told.length === 1);
});

test("a crowd reads an opened promotion over the spread", () => {
  const promotion: Promotion = { ...open, status: "Scheduled", opensAt: new Date(Date.now() + 10_000).toISOString(), spreadMs: 100_000 };
  const waits = Array.from({ length: 1000 }, () => untilChange({ promotion, own: undefined, draw: undefined, signedIn: true, advised: 0 }) ?? 0);
  ok(waits.every((seconds) => seconds > 10 && seconds < 112));
  ok(Math.max(...waits) > 80);
});
