// Which seats are free, by the events of a stream.

import type { ServerEvent } from "./eventstream";
import type { Availability, SeatChanges } from "./types";

/** The seats after an event; undefined if they are not known. */
export function seatsAfter(event: ServerEvent, now: Availability | undefined): Availability | undefined {
  if (event.name === "reset") return JSON.parse(event.data) as Availability;
  if (event.name !== "" || !now) return now;
  const { taken, freed, sections } = JSON.parse(event.data) as SeatChanges;
  const bits = Uint8Array.from(atob(now.bitmap), (c) => c.charCodeAt(0));
  for (const seat of taken) bits[seat >> 3]! &= ~(0x80 >> (seat & 7));
  for (const seat of freed) bits[seat >> 3]! |= 0x80 >> (seat & 7);
  const free = new Map(sections.map((s) => [s.section, s.free]));
  return {
    ...now,
    bitmap: btoa(Array.from(bits, (b) => String.fromCharCode(b)).join("")),
    sections: now.sections.map((s) => ({ ...s, free: free.get(s.section) ?? s.free })),
  };
}

/** The version of a response, by its ETag: proxies may weaken it, and compressed ones have a suffix. */
export const versionOf = (etag: string): string => /^(?:W\/)?"([0-9a-f]+)(?:-gz)?"$/.exec(etag)?.[1] ?? "";
