// The state of a sale as text, the same on every page before its tickets.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { serverNow } from "./now";
import { clock, repeat, untilVisible } from "./pace";
import { fill, strings } from "./page";
import { isOver, saleText } from "./standing";
import type { EventStatus, SaleEvent, Section } from "./types";
import { Countdown, Notice } from "./ui";
import { formatEventTime } from "./zone";

const t = strings("sale");

export const readEvent = (eventId: string, signal?: AbortSignal): Promise<SaleEvent> =>
  call<SaleEvent>("GET", `/events/${encodeURIComponent(eventId)}`, signal ? { signal } : {});

/** Seats can be held. SOLD_OUT may be outdated, so the server decides. */
export const buyable = (event: SaleEvent): boolean => event.status === "ON_SALE" || event.status === "SOLD_OUT";

/** What a place of a section costs, minor units, fee included. */
export const costOf = (section: Section): number => section.price + section.fee;

export const priceOf = (event: SaleEvent, section: string): number => {
  const found = event.sections.find((s) => s.section === section);
  return found ? costOf(found) : 0;
};

/** The event is cancelled, but may take place again. */
export const undoable = (event: SaleEvent): boolean =>
  event.status === "CANCELLED" && event.refundsAt !== undefined && Date.parse(event.refundsAt) > serverNow();

/** Seconds until the sale opens, by the clock of the server; 0 afterwards. */
const untilOpening = (event: SaleEvent): number => Math.max(0, (Date.parse(event.salesOpenAt) - serverNow()) / 1000);

/**
 * Seconds until the next poll of a sale: its opening, delayed by up to `spread` seconds because all
 * visitors wait for that instant, else a fixed interval.
 */
export function untilChange(event: SaleEvent, spread = 2): number | undefined {
  if (undoable(event)) return 30;
  if (isOver(event.status)) return undefined;
  if (event.status === "SCHEDULED") return Math.min(300, 1 + untilOpening(event)) + spread * Math.random();
  return event.status === "ON_SALE" ? 120 : 30;
}

/**
 * The sale, shown as open from its opening time on without a poll: visitors of this page need not
 * all poll at that instant. The line has the actual state.
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

/** The sale, kept up to date. */
export function useSale(opened: SaleEvent): SaleEvent {
  const [event, setEvent] = useState(opened);
  useEffect(() => {
    const abort = new AbortController();
    const attempt = async () => {
      await untilVisible(abort.signal);
      const now = await readEvent(opened.eventId, abort.signal);
      setEvent(now);
      return untilChange(now);
    };
    const first = untilChange(opened);
    if (first !== undefined) {
      // Temporary failures are retried; permanent ones are ignored.
      void clock.wait(first, abort.signal).then(() => repeat(attempt, () => undefined, abort.signal));
    }
    return () => abort.abort();
  }, [opened]);
  return event;
}

interface SaleNoticeProps {
  status: EventStatus | undefined;
  // The event, once loaded.
  event: SaleEvent | undefined;
  // Whether the visitor has a place in the line.
  waits?: boolean;
}

/** Why nothing can be bought now, and from when on; empty when it can. */
export function SaleNotice({ status, event, waits = false }: SaleNoticeProps) {
  const text = saleText(status, t, waits);
  if (!text) return null;
  const scheduled = status === "SCHEDULED" ? event : undefined;
  const cancelled = status === "CANCELLED" ? event : undefined;
  return (
    <Notice tone={status === "CANCELLED" ? "bad" : "info"}>
      <p>{text}</p>
      {cancelled?.refundsAt && (
        <p>
          {undoable(cancelled)
            ? fill(t.refundsAt, { time: formatEventTime(cancelled.timeZone, cancelled.refundsAt) })
            : t.refundsBegun}
        </p>
      )}
      {scheduled && waits && <p>{fill(t.opensAt, { time: formatEventTime(scheduled.timeZone, scheduled.salesOpenAt) })}</p>}
      {scheduled && <Opening at={Date.parse(scheduled.salesOpenAt)} />}
    </Notice>
  );
}

/** The old and the new date of a postponed event. */
export function PostponedNotice({ event }: { event: SaleEvent }) {
  if (!event.postponedFrom || event.status === "CANCELLED") return null;
  const times = { before: formatEventTime(event.timeZone, event.postponedFrom), time: formatEventTime(event.timeZone, event.startsAt) };
  return (
    <Notice>
      <p>{fill(t.postponed, times)}</p>
    </Notice>
  );
}

function Opening({ at }: { at: number }) {
  const [before, after = ""] = t.opensIn.split("{time}");
  return (
    <p>
      {before}
      <Countdown end={at} />
      {after}
    </p>
  );
}
