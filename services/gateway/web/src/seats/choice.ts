// The seats that the visitor has chosen: kept over a reload, dropped when somebody else takes them.

import { useEffect, useRef, useState } from "preact/hooks";
import { recall, remember } from "../lib/store";
import type { Availability } from "../lib/types";
import { type Layout, unpack } from "./layout";

export interface Choice {
  // One byte a seat, 1 when free; nothing until the server has said it.
  free: Uint8Array | undefined;
  // Index of each chosen seat, in the order of choosing.
  chosen: ReadonlySet<number>;
  setChosen: (chosen: ReadonlySet<number>) => void;
}

const key = (eventId: string) => `urr-choice-${eventId}`;

/** Seat ids hold no commas: they are made of section, row and number. */
function recallChoice(eventId: string, layout: Layout): Set<number> {
  const ids = recall(sessionStorage, key(eventId)).split(",").filter(Boolean);
  return new Set(ids.map((id) => layout.indexOf(id)).filter((i) => i >= 0));
}

/** Forgets the choice, since it has become a reservation. */
export const forgetChoice = (eventId: string): void => remember(sessionStorage, key(eventId), "");

/** `onGone` is told which chosen seats are free no more. */
export function useChoice(layout: Layout, now: Availability | undefined, onGone: (seats: number[]) => void): Choice {
  const [free, setFree] = useState<Uint8Array>();
  const [chosen, setChosen] = useState<ReadonlySet<number>>(() => recallChoice(layout.eventId, layout));
  const latest = useRef({ chosen, onGone });
  latest.current = { chosen, onGone };
  const change = (seats: ReadonlySet<number>) => {
    setChosen(seats);
    remember(sessionStorage, key(layout.eventId), [...seats].map((i) => layout.seat(i).seatId).join());
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
