// The reservation that the visitor already holds for an event: shown after a reload, the back
// button, or in another tab.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { serverNow } from "./now";
import { clock } from "./pace";
import { fill, strings } from "./page";
import type { List, Reservation } from "./types";
import { Countdown, Notice } from "./ui";

const common = strings("common");

/** The newest unpaid reservation of the event. A failure counts as none. */
export async function readHeld(eventId: string, signal?: AbortSignal): Promise<Reservation | undefined> {
  const unpaid = (r: Reservation) => r.eventId === eventId && (r.status === "HELD" || r.status === "PAYING");
  try {
    const list = await call<List<Reservation>>("GET", "/my/reservations?limit=20", signal ? { signal } : {});
    return list.items.find(unpaid);
  } catch {
    return undefined;
  }
}

/**
 * The held reservation as of the loading of the page: a notice that appears later would move the
 * page while the visitor points at it. `again` reads it anew, and so does the end of the hold.
 */
export function useHeld(eventId: string, loaded: Reservation | undefined) {
  const [held, setHeld] = useState(loaded);
  const again = () => void readHeld(eventId).then(setHeld);
  useEffect(() => {
    if (!held) return undefined;
    const abort = new AbortController();
    const left = (Date.parse(held.expiresAt) - serverNow()) / 1000;
    void clock.wait(Math.min(300, Math.max(2, left + 1)), abort.signal).then(() => abort.signal.aborted || again());
    return () => abort.abort();
  }, [held]);
  return { held, again };
}

export function HeldNotice({ held }: { held: Reservation | undefined }) {
  if (!held) return null;
  const [before, after = ""] = fill(common.held, { n: held.seats.length || held.quantity }).split("{time}");
  return (
    <Notice>
      <p>
        {before}
        <Countdown end={Date.parse(held.expiresAt)} />
        {after}
      </p>
      <a class="button" href={`/checkout/${held.reservationId}`}>
        {common.toPayment}
      </a>
    </Notice>
  );
}
