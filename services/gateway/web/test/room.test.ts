import "./browser";
import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "../src/lib/clock";
import { Room, type Schedule, type Screen } from "../src/room/line";
import type { Puzzle } from "../src/room/proof";

const event = "concert";
const key = `urr-vwr-${event}`;
const entry = { requestId: "01890000-0000-8000-8000-000000000001", position: 0, ticket: "t0", receipt: "r" };

type Reply = [status: number, body: object];

/**
 * Runs the page's loop with these responses, in order; it ends when there is none left. Returns the
 * calls, what the screen has shown, and what is stored.
 */
async function play(
  stored: object,
  replies: Reply[],
  solve: (puzzle: Puzzle) => string | undefined = () => undefined,
  captcha = "",
  stopAt = "",
): Promise<{ calls: string[]; shown: string[]; kept: unknown; proofs: (string | undefined)[]; tokens: (string | undefined)[]; sales: unknown[]; presales: unknown[]; schedules: Schedule[]; waits: number[] }> {
  const storage = new Map([[key, JSON.stringify(stored)]]);
  const calls: string[] = [];
  const proofs: (string | undefined)[] = [];
  const tokens: (string | undefined)[] = [];
  const shown: string[] = [];
  const sales: unknown[] = [];
  const presales: unknown[] = [];
  const waits: number[] = [];
  const schedules: Schedule[] = [];
  const left = [...replies];
  Object.assign(globalThis, {
    addEventListener: () => undefined,
    localStorage: {
      getItem: (name: string) => storage.get(name) ?? null,
      setItem: (name: string, value: string) => storage.set(name, value),
      removeItem: (name: string) => storage.delete(name),
    },
    fetch: (url: string, init: RequestInit) => {
      calls.push(`${init.method} ${url.replace(/^.*\/vwr\//, "")}`);
      const headers = init.headers as Record<string, string>;
      if (url.includes("/assign/")) {
        proofs.push(headers["x-vwr-proof"]);
        tokens.push(headers["x-vwr-captcha"]);
      }
      const [status, body] = left.shift() as Reply;
      return Promise.resolve(new Response(JSON.stringify(body), { status }));
    },
  });
  const screen = new Proxy({}, { get: (_, name: string) => (of: { sale?: string }, ...more: unknown[]) => {
      shown.push(name);
      if (name === stopAt) room.stop();
      if (name === "lobby") {
        presales.push(more[1]);
        schedules.push(of as unknown as Schedule);
      }
      if (name === "progress") sales.push(of.sale);
    } }) as Screen;
  let room: Room;
  const over = new Promise<void>((resolve) => {
    const wait = (seconds: number): Promise<void> => {
      waits.push(seconds);
      return left.length > 0 ? Promise.resolve() : new Promise(() => resolve());
    };
    const clock = { wait } as unknown as Clock;
    room = new Room(event, clock, screen, () => "en", (puzzle) => Promise.resolve(solve(puzzle)), captcha);
    void room.run().then(resolve);
  });
  await over;
  return { calls, shown, proofs, tokens, sales, presales, schedules, waits, kept: JSON.parse(storage.get(key) ?? "null") };
}

const signedOut: Reply = [401, { status: 401, code: "UNAUTHENTICATED" }];
const unknown: Reply = [404, { status: 404, code: "VWR_REQUEST_UNKNOWN" }];
const inLobby: Reply = [200, { admitted: false, position: 0, servingCounter: 0, nextPoll: 1, phase: "LOBBY", opensAt: 1 }];
const placed: Reply = [200, { admitted: false, position: 42, servingCounter: 0, ahead: 42, estimatedWait: 9, nextPoll: 2, ticket: "t42" }];

test("the entry of a user whose session has ended is kept, and goes on after the sign-in", async () => {
  const got = await play(entry, [inLobby, signedOut, signedOut, placed]);
  deepEqual(got.shown, ["lobby", "signedOut", "signedOut", "drawn", "progress"]);
  equal(got.calls.filter((c) => c !== `GET check/${event}/${entry.requestId}`).length, 0, "no other number is taken");
  deepEqual(got.kept, { ...entry, position: 42, ticket: "t42" });
});

test("so is an entry that has its position", async () => {
  const drawn = { ...entry, position: 42 };
  const got = await play(drawn, [signedOut]);
  deepEqual(got.shown, ["kept", "signedOut"]);
  deepEqual(got.kept, drawn);
});

test("a number that nobody knows is replaced", async () => {
  const assigned: Reply = [200, { requestId: "n", position: 7, ticket: "t7", servingCounter: 0 }];
  for (const reply of [unknown, signedOut]) {
    const got = await play({ requestId: "o", position: 3, ticket: "t3" }, [reply, assigned, placed]);
    equal(got.calls[1], `POST assign/${event}`);
    deepEqual(got.shown, ["kept", "renewed", "taking", "progress"]);
  }
});

const asked: Reply = [403, { status: 403, code: "PROOF_REQUIRED" }];
const busy: Reply = [503, { status: 503, code: "OVERLOADED" }];
const number: Reply = [200, { requestId: "n", position: 42, ticket: "t42", servingCounter: 0 }];
const challenge = (name: string): Reply => [200, { challenge: name, difficulty: 16, expiresAt: Date.now() + 300_000 }];

test("a number that costs a proof of work is taken with it, also after a failure", async () => {
  const puzzles: Puzzle[] = [];
  const got = await play({}, [asked, challenge("c"), busy, number, placed], (puzzle) => {
    puzzles.push(puzzle);
    return `${puzzle.challenge}.n`;
  });
  deepEqual(got.proofs, [undefined, "c.n", "c.n"]);
  deepEqual(got.shown, ["taking", "solving", "taking", "offline", "taking", "progress"]);
  equal(puzzles.length, 1);
  equal(puzzles[0]?.difficulty, 16);
  equal(Math.round((puzzles[0]?.ms ?? 0) / 10_000), 30);
});

test("a proof that is refused, or was not found in time, is replaced", async () => {
  const solutions = [undefined, "late", "good"];
  const got = await play(
    {},
    [asked, challenge("a"), asked, challenge("b"), asked, asked, challenge("c"), number, placed],
    () => solutions.shift(),
  );
  deepEqual(got.proofs, [undefined, undefined, "late", undefined, "good"]);
});

test("a challenge that is refused is asked for again", async () => {
  const missing: Reply = [404, { status: 404, code: "NOT_FOUND" }];
  const got = await play({}, [asked, missing, asked, busy, asked, challenge("c"), number, placed], ({ challenge }) => `${challenge}.n`);
  deepEqual(got.proofs, [undefined, undefined, undefined, "c.n"]);
});

const noCookies: Reply = [401, { status: 401, code: "VISITOR_REQUIRED" }];

test("a browser that keeps no cookies is told so, and takes no second number", async () => {
  const got = await play({}, [number, noCookies]);
  deepEqual(got.calls, [`POST assign/${event}`, `GET check/${event}/n`]);
  deepEqual(got.shown, ["taking", "refused"]);
  equal(got.kept, null);
});

test("so is one that has done the work for a number", async () => {
  const got = await play({}, [asked, challenge("c"), noCookies], ({ challenge }) => `${challenge}.n`);
  deepEqual(got.proofs, [undefined, "c.n"]);
  deepEqual(got.shown, ["taking", "solving", "taking", "refused"]);
});

test("who has lost the cookie of a number or of an entry takes another number", async () => {
  for (const stored of [{ requestId: "o", position: 3, ticket: "t3" }, entry]) {
    const got = await play(stored, [noCookies, number, placed]);
    equal(got.calls[1], `POST assign/${event}`);
    equal(got.shown.at(-1), "progress");
  }
});

test("a room for signed-in users asks for the sign-in, and keeps their number", async () => {
  const mine: Reply = [200, { requestId: "n", position: 42, ticket: "t42", servingCounter: 0, ofUser: true }];
  const got = await play({}, [signedOut, mine, placed]);
  deepEqual(got.shown, ["taking", "signIn", "taking", "progress"]);
  const back = await play(got.kept as object, [signedOut]);
  deepEqual(back.shown, ["kept", "signedOut"]);
  deepEqual(back.kept, { requestId: "n", position: 42, ticket: "t42", ofUser: true });
});

test("a visitor is sent to the test of a challenge provider once, and comes back with its token", async () => {
  const tested: Reply = [403, { status: 403, code: "CAPTCHA_REQUIRED", captchaUrl: "/test" }];
  const sent = await play({}, [tested]);
  deepEqual(sent.shown, ["taking", "test"]);
  const back = await play({}, [busy, number, placed], undefined, "token");
  deepEqual(back.tokens, ["token", "token"]);
  deepEqual(back.shown, ["taking", "offline", "taking", "progress"]);
  const refused = await play({}, [tested], undefined, "token");
  deepEqual(refused.shown, ["taking", "refused"]);
});

test("a cancelled event that may take place again is shown as cancelled, and the number is kept", async () => {
  const paused: Reply = [200, { admitted: false, position: 42, servingCounter: 0, ahead: 42, nextPoll: 2, saleStatus: "PAUSED" }];
  const serving: Reply = [200, { servingCounter: 0, isActive: true, saleStatus: "PAUSED" }];
  const stored = { requestId: "n", position: 42, ticket: "t42" };
  const got = await play(stored, [paused, [200, { status: "CANCELLED" }], serving, serving]);
  deepEqual(got.calls, [`GET check/${event}/n`, `GET /api/v1/events/${event}`, `GET serving/${event}`, `GET serving/${event}`]);
  deepEqual(got.sales, ["CANCELLED", "CANCELLED", "CANCELLED"]);
  deepEqual(got.kept, stored);
  const unread = await play(stored, [paused, [503, { status: 503, code: "UNAVAILABLE" }], serving]);
  deepEqual(unread.sales, ["PAUSED", "PAUSED"]);
});

test("a page may end the polling; the number is kept", async () => {
  const number = { requestId: entry.requestId, position: 42, ticket: "t0" };
  const got = await play(number, [placed, placed], undefined, "", "progress");
  deepEqual(got.calls, [`GET check/${event}/${entry.requestId}`]);
  deepEqual(got.kept, { ...number, ticket: "t42" });
});

test("in a presale the lobby shows the way to the line, to who has joined and to others", async () => {
  const outside: Reply = [409, { status: 409, code: "LOBBY_OPEN", opensAt: "1", saleStatus: "PRESALE" }];
  deepEqual((await play({}, [outside])).presales, [true]);
  const presale: Reply = [200, { ...inLobby[1], saleStatus: "PRESALE" }];
  deepEqual((await play(entry, [inLobby, presale])).presales, [false, true]);
});

test("each visitor asks at the own turn, before and after the start, and never earlier", async () => {
  const now = Date.now();
  const opensAt = now + 10_000;
  const before: Reply = [409, { status: 409, code: "LOBBY_OPEN", opensAt: String(opensAt), asksAt: String(now + 40_000), retryAfter: 40 }];
  const early: Reply = [429, { status: 429, code: "ASK_LATER", opensAt: String(now), asksAt: String(now + 20_000), retryAfter: 20 }];
  const got = await play({}, [before, early, number, placed]);
  deepEqual(got.shown, ["taking", "lobby", "lobby", "progress"]);
  deepEqual(got.schedules.map((s) => [s.opensAt, s.asksAt]), [[opensAt, now + 40_000], [now, now + 20_000]]);
  for (const [i, seconds] of [40, 20].entries()) ok(Math.abs((got.waits[i] ?? 0) - seconds) < 2, `${got.waits[i]} s`);
});

test("a browser whose clock is ahead does not ask without a pause", async () => {
  const early: Reply = [429, { status: 429, code: "ASK_LATER", opensAt: "1", asksAt: String(Date.now() - 500), retryAfter: 1 }];
  const got = await play({}, [early, early, number, placed]);
  for (const seconds of got.waits.slice(0, 2)) ok(seconds >= 0.9, `${seconds} s`);
});

test("outside a lobby whose start is not spread the page varies the time", async () => {
  const opensAt = Date.now() + 10_000;
  const reply: Reply = [409, { status: 409, code: "LOBBY_OPEN", opensAt: String(opensAt), asksAt: String(opensAt), retryAfter: 10 }];
  const random = Math.random;
  for (const part of [0, 0.9]) {
    Math.random = () => part;
    const [seconds = 0] = (await play({}, [reply, number, placed])).waits;
    ok(Math.abs(seconds - 10 - 3 * part) < 1, `${seconds} s`);
  }
  Math.random = random;
});

test("who has joined asks at the own turn; long before the start the page looks as advised", async () => {
  const asksAt = Date.now() + 30_000;
  const near: Reply = [200, { ...inLobby[1], nextPoll: 30, asksAt }];
  const far: Reply = [200, { ...inLobby[1], nextPoll: 30, asksAt: asksAt + 3_600_000 }];
  const got = await play(entry, [far, near, placed]);
  ok((got.waits[0] ?? 0) >= 27 && (got.waits[0] ?? 0) <= 33);
  ok(Math.abs((got.waits[1] ?? 0) - 30) < 2);
});
