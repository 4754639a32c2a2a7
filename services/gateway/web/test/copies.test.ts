// Copies of draws are evidence: the first and the latest of each content are kept, with their times.

import "./browser";
import { deepEqual } from "node:assert/strict";
import { test } from "node:test";
import type { DrawDocument } from "../src/lib/fairdraw";
import { observeServerTime } from "../src/lib/now";
import { keepCopy } from "../src/lib/receipts";

const terms = { eventId: "e", phase: "OPEN", commitment: "terms", commitmentHash: "hash" };
const statement = { statement: "s", signature: "x" };

test("copies", () => {
  const storage = new Map<string, string>();
  let now = 1_000_000_000;
  Date.now = () => now;
  Object.assign(globalThis, {
    localStorage: { getItem: (key: string) => storage.get(key) ?? null, setItem: (key: string, value: string) => storage.set(key, value) },
  });
  const see = (at: number, document: DrawDocument) => {
    now = 1_000_000_000 + at;
    return keepCopy(document).map((c) => [c.savedAt, c.statement?.statement, c.seed].map((v) => (typeof v === "number" ? v - 1_000_000_000 : v)));
  };
  see(1, terms);
  see(2, terms);
  deepEqual(see(3, terms), [[1, undefined, undefined], [3, undefined, undefined]]);
  see(4, { ...terms, phase: "ROOT", statement });
  see(5, { ...terms, phase: "ROOT", statement });
  const second = { ...terms, phase: "ROOT", statement: { statement: "other", signature: "x" } };
  const all = [[1, undefined, undefined], [3, undefined, undefined], [4, "s", undefined], [5, "s", undefined], [6, "other", undefined]];
  deepEqual(see(6, second), all); // no copy replaces one of another content
  const drawn = { ...terms, phase: "SETTLED", statement, seed: "aa" };
  deepEqual(see(7, drawn), [...all, [7, "s", "aa"]]);
  // A browser whose clock is wrong would accuse the operator falsely.
  observeServerTime(new Response("", { headers: { Date: new Date(now + 60_000).toUTCString() } }), now);
  deepEqual(see(8, second), [...all, [7, "s", "aa"]]);

  // The first copy is kept all the same, but says nothing of what was not there; so does one of an answer
  // that is old.
  const unsure = (name: string, age = 0) => keepCopy(terms, name, age).map((c) => c.unsure ?? false);
  deepEqual(unsure("first by a wrong clock"), [true]);
  observeServerTime(new Response("", { headers: { Date: new Date(now).toUTCString() } }), now);
  deepEqual(unsure("first by a wrong clock"), [true, false]);
  deepEqual(unsure("first by a right clock"), [false]);
  deepEqual(unsure("an old answer", 6000), [true]);
  deepEqual(unsure("an old answer", 6000), [true]);
  deepEqual(unsure("an old answer"), [true, false]);
});
