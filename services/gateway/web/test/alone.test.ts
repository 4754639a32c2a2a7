import "./browser";
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { alone } from "../src/room/alone";

/** Gives the browser these locks. */
const withLocks = (locks: unknown): unknown => Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });

test("a call is made under the lock, once", async () => {
  const steps: string[] = [];
  withLocks({
    request: async (name: string, _: object, granted: () => Promise<void>) => {
      steps.push(name);
      await granted();
      steps.push("released");
    },
  });
  const answer = await alone(() => {
    steps.push("call");
    return Promise.resolve("a");
  });
  equal(answer, "a");
  deepEqual(steps, ["urr-visitor", "call", "released"]);
  const refused = new Error("refused");
  equal(await alone(() => Promise.reject(refused)).catch((failure: unknown) => failure), refused);
});

test("without locks, or when another tab does not end its call, it is made all the same", async () => {
  for (const locks of [undefined, { request: () => Promise.reject(new Error("timeout")) }]) {
    withLocks(locks);
    let calls = 0;
    equal(await alone(() => Promise.resolve(++calls)), 1);
  }
});
