// The seats chosen by the visitor: kept over a reload, removed when taken by others.

import { useEffect, useRef, useState } from "preact/hooks";
import { readStored, writeStored } from "../lib/store";
import type { Availability } from "../lib/types";
import { type Layout, unpack } from "./layout";

export interface Choice {
  // One byte per seat, 1 when free; undefined until the first response.
  free: Uint8Array | undefined;
  // Index of each chosen seat, in the order of choosing.
  chosen: ReadonlySet<number>;
  setChosen: (chosen: ReadonlySet<number>) => void;
}

const key = (eventId: string) => `urr-choice-${eventId}`;

/** Reads the choice. Seat ids contain no commas. */
function readChoice(eventId: string, layout: Layout): Set<number> {
  const ids = readStored(sessionStorage, key(eventId)).split(",").filter(Boolean);
  return new Set(ids.map((id) => layout.indexOf(id)).filter((i) => i >= 0));
}

/** Removes the choice once it has become a reservation. */
export const forgetChoice = (eventId: string): void => writeStored(sessionStorage, key(eventId), "");

/** `onGone` is called with the chosen seats that were taken. */
export function useChoice(layout: Layout, now: Availability | undefined, onGone: (seats: number[]) => void): Choice {
  const [free, setFree] = useState<Uint8Array>();
  const [chosen, setChosen] = useState<ReadonlySet<number>>(() => readChoice(layout.eventId, layout));
  const latest = useRef({ chosen, onGone });
  latest.current = { chosen, onGone };
  const change = (seats: ReadonlySet<number>) => {
    setChosen(seats);
    writeStored(sessionStorage, key(layout.eventId), [...seats].map((i) => layout.seat(i).seatId).join());
  };
  useEffect(() => {
    if (!now) return;
    const unpacked = unpack(now.bitmap, layout.seats);
    setFree(unpacked);
    const gone = [...latest.current.chosen].filter((i) => !unpacked[i]);
    if (gone.length === 0) return;
    change(new Set([...latest.current.chosen].filter((i) => unpacked[i])));
    latest.current.onGone(gone);
  }, [now]);
  return { free, chosen, setChosen: change };
}
