import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { EventParser, type ServerEvent } from "../src/lib/eventstream";
import { seatsAfter, versionOf } from "../src/lib/seatchanges";
import type { Availability } from "../src/lib/types";

const encoder = new TextEncoder();

test("events are complete whatever parts they come in", () => {
  const text = 'retry: 2000\n\nevent: reset\nid: v1\ndata: {"a":"가"}\n\n:\n\nid: v2\ndata: 2\n\nid: v3\ndata: cut';
  const events = [
    { name: "reset", id: "v1", data: '{"a":"가"}' },
    { name: "", id: "v2", data: "2" },
  ];
  const bytes = encoder.encode(text);
  for (let size = 1; size <= bytes.length; size++) {
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const got: ServerEvent[] = [];
    for (let i = 0; i < bytes.length; i += size) got.push(...parser.push(decoder.decode(bytes.slice(i, i + size), { stream: true })));
    deepEqual(got, events);
  }
});

/** A reproducible source of numbers below n (mulberry32). */
function numbers(seed: number): (n: number) => number {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

/** The states of a sale, and what the server sends to whoever has one of them. */
class Sale {
  readonly states: Uint8Array[] = [new Uint8Array(20)];

  bitmap = (state: number): string => btoa(String.fromCharCode(...(this.states[state] ?? [])));
  free = (state: number): number => this.states[state]?.reduce((sum, b) => sum + b.toString(2).replaceAll("0", "").length, 0) ?? 0;
  all = (state: number): Availability => ({
    eventId: "e",
    bitmap: this.bitmap(state),
    sections: [{ section: "A", price: 1, capacity: 160, free: this.free(state), fee: 0, seating: "ASSIGNED" }],
  });

  turn(seats: number[]): void {
    const next = Uint8Array.from(this.states[this.states.length - 1] ?? []);
    for (const seat of seats) next[seat >> 3]! ^= 0x80 >> (seat & 7);
    this.states.push(next);
  }

  /** The stream of who has `from` ("": nothing), up to the last state. */
  stream(from: string): string {
    let at = from === "" ? -1 : Number(from);
    let text = "retry: 2000\n\n";
    if (at < 0) text += `event: reset\nid: ${(at = 0)}\ndata: ${JSON.stringify(this.all(0))}\n\n`;
    for (; at < this.states.length - 1; at++) {
      const taken: number[] = [];
      const freed: number[] = [];
      for (let seat = 0; seat < 160; seat++) {
        const was = (this.states[at]![seat >> 3]! >> (7 - (seat & 7))) & 1;
        const is = (this.states[at + 1]![seat >> 3]! >> (7 - (seat & 7))) & 1;
        if (was !== is) (is ? freed : taken).push(seat);
      }
      const sections = [{ section: "A", free: this.free(at + 1) }];
      text += `id: ${at + 1}\ndata: ${JSON.stringify({ seq: at, taken, freed, sections })}\n\n`;
    }
    return text;
  }
}

test("a page whose connections are cut ends with the seats of a fresh read", () => {
  for (let seed = 0; seed < 20; seed++) {
    const random = numbers(seed);
    const sale = new Sale();
    for (let i = 0; i < 60; i++) sale.turn(Array.from({ length: 1 + random(9) }, () => random(160)));
    let now: Availability | undefined;
    let version = "";
    let cuts = 0;
    while (version !== "60") {
      const bytes = encoder.encode(sale.stream(version));
      const parser = new EventParser();
      const end = Math.min(bytes.length, random(1500));
      if (end < bytes.length) cuts++;
      for (const event of parser.push(new TextDecoder().decode(bytes.slice(0, end)))) {
        now = seatsAfter(event, now);
        version = event.id;
      }
    }
    deepEqual(now, sale.all(60));
    ok(cuts > 3, `${cuts} cuts`);
  }
});

test("an event that says nothing about seats changes nothing", () => {
  const all = new Sale().all(0);
  equal(seatsAfter({ name: "end", id: "", data: '{"code":"SESSION_INVALID"}' }, all), all);
  equal(seatsAfter({ name: "", id: "v", data: '{"taken":[],"freed":[],"sections":[]}' }, undefined), undefined);
});

test("the version of a response survives proxies", () => {
  for (const etag of ['"0af9"', '"0af9-gz"', 'W/"0af9"', 'W/"0af9-gz"']) equal(versionOf(etag), "0af9");
  for (const etag of ["", '"a b"', "0af9"]) equal(versionOf(etag), "");
});
