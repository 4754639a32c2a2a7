// What the visitor holds of an event already: found again after a reload, the back button, or in another tab.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { fill, strings } from "./page";
import type { List, Reservation } from "./types";
import { Countdown, Notice } from "./ui";

const common = strings("common");

/** The newest unpaid reservation of the event; `again` asks anew. Without an answer the page goes on without it. */
export function useHeld(eventId: string): { held: Reservation | undefined; again: () => void } {
  const [held, setHeld] = useState<Reservation>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    const mine = (r: Reservation) => r.eventId === eventId && (r.status === "HELD" || r.status === "PAYING");
    call<List<Reservation>>("GET", "/my/reservations?limit=20", { signal: abort.signal }).then(
      (list) => setHeld(list.items.find(mine)),
      () => undefined,
    );
    return () => abort.abort();
  }, [round]);
  return { held, again: () => setRound((n) => n + 1) };
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
