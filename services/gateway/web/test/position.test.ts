import "./browser";
import { deepEqual } from "node:assert/strict";
import { test } from "node:test";
import { followPosition } from "../src/queue/position";

const event = "concert";
const key = `urr-vwr-${event}`;
const assigned = { requestId: "r", position: 4, ticket: "t", servingCounter: 9, nextPoll: 2 };
const admitted = { admitted: true, position: 4, servingCounter: 9, ahead: 0, nextPoll: 2 };

/** Follows the position that the browser keeps, until it is served; returns the calls. */
async function follow(stored: object | null, replies: [status: number, body: object][]): Promise<string[]> {
  const storage = new Map([[key, JSON.stringify(stored)]]);
  const calls: string[] = [];
  Object.assign(globalThis, {
    localStorage: {
      getItem: (name: string) => storage.get(name) ?? null,
      setItem: (name: string, value: string) => storage.set(name, value),
      removeItem: (name: string) => storage.delete(name),
    },
    fetch: (url: string, init: RequestInit) => {
      calls.push(`${init.method} ${url.replace(/^.*\/vwr\//, "")}`);
      const [status, body] = replies.shift() ?? [500, {}];
      return Promise.resolve(new Response(JSON.stringify(body), { status }));
    },
  });
  await new Promise<void>((resolve) => followPosition(event, resolve, new AbortController().signal));
  return calls;
}

test("who is in the line without a number takes one", async () => {
  deepEqual(await follow(null, [[200, assigned], [200, admitted]]), [`POST assign/${event}`, `GET check/${event}/r`]);
});

test("who has a number goes on with it", async () => {
  deepEqual(await follow(assigned, [[200, admitted]]), [`GET check/${event}/r`]);
});

test("no number is needed without a room", async () => {
  deepEqual(await follow(null, [[404, {}], [200, { next: "QUEUE" }]]), [`POST assign/${event}`, `GET status/${event}`]);
});
