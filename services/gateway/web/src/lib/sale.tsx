// A sale's state in words, the same on every page on the way to its tickets.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { serverNow } from "./now";
import { clock, repeat, seen } from "./pace";
import { strings } from "./page";
import type { SaleEvent } from "./types";
import { Countdown, Notice } from "./ui";

const common = strings("common");

export const readEvent = (eventId: string, signal?: AbortSignal): Promise<SaleEvent> =>
  call<SaleEvent>("GET", `/events/${encodeURIComponent(eventId)}`, signal ? { signal } : {});

/** The sale will never (again) let anybody in. */
export const isOver = (event: SaleEvent): boolean => event.status === "CLOSED" || event.status === "CANCELLED";

/** Seats can be held; SOLD_OUT may be a moment old, so that the server decides. */
export const buyable = (event: SaleEvent): boolean => event.status === "ON_SALE" || event.status === "SOLD_OUT";

/** Seconds until the sale opens, by the server's clock; none are left once it has. */
const untilOpening = (event: SaleEvent): number => Math.max(0, (Date.parse(event.salesOpenAt) - serverNow()) / 1000);

/**
 * Seconds until a sale's state is worth another question: its opening, spread over `spread` seconds since everybody waits
 * for the same instant; now and then while it may change otherwise.
 */
export function untilChange(event: SaleEvent, spread = 2): number | undefined {
  if (isOver(event)) return undefined;
  if (event.status === "SCHEDULED") return Math.min(300, 1 + untilOpening(event)) + spread * Math.random();
  return event.status === "ON_SALE" ? 120 : 30;
}

/**
 * The sale with its opening taken from the clock: who only looks on need not all ask at once whether it has come. Whoever
 * goes in then is told by the line.
 */
export function useOpening(event: SaleEvent): SaleEvent {
  const [opened, setOpened] = useState(false);
  const scheduled = event.status === "SCHEDULED";
  useEffect(() => {
    if (!scheduled) return undefined;
    const abort = new AbortController();
    const left = () => Math.min(300, untilOpening(event)) || undefined;
    void repeat(async () => left(), () => undefined, abort.signal).then(() => abort.signal.aborted || setOpened(true));
    return () => abort.abort();
  }, [scheduled, event.salesOpenAt]);
  return scheduled && opened ? { ...event, status: "ON_SALE" } : event;
}

/** The sale as it goes on after the page was opened. */
export function useSale(opened: SaleEvent): SaleEvent {
  const [event, setEvent] = useState(opened);
  useEffect(() => {
    const abort = new AbortController();
    const attempt = async () => {
      await seen(abort.signal);
      const now = await readEvent(opened.eventId, abort.signal);
      setEvent(now);
      return untilChange(now);
    };
    const first = untilChange(opened);
    if (first !== undefined) {
      // What cannot be asked now is asked later; what is refused for good has nothing to add.
      void clock.wait(first, abort.signal).then(() => repeat(attempt, () => undefined, abort.signal));
    }
    return () => abort.abort();
  }, [opened]);
  return event;
}

/** Why nothing can be bought right now, and from when on; nothing while it can. */
export function SaleNotice({ event }: { event: SaleEvent }) {
  if (event.status === "ON_SALE") return null;
  const opens = Date.parse(event.salesOpenAt);
  const [before, after = ""] = common.opensIn.split("{time}");
  return (
    <Notice tone={event.status === "CANCELLED" ? "bad" : "info"}>
      <p>{common[`sale_${event.status}`]}</p>
      {event.status === "SCHEDULED" && (
        <p>
          {before}
          <Countdown end={opens} />
          {after}
        </p>
      )}
    </Notice>
  );
}
