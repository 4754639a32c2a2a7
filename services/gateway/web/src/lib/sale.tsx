// The state of a sale as text, the same on every page before its tickets.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { serverNow } from "./now";
import { clock, repeat, untilVisible } from "./pace";
import { fill, strings } from "./page";
import { shownEnd } from "./refund";
import { unknownCrowd, untilTurn } from "./spread";
import { isOver, saleText } from "./standing";
import type { EventStatus, SaleEvent, Section } from "./types";
import { Countdown, Notice } from "./ui";
import { formatEventTime } from "./zone";

const t = strings("sale");

export const readEvent = (eventId: string, signal?: AbortSignal): Promise<SaleEvent> =>
  call<SaleEvent>("GET", `/events/${encodeURIComponent(eventId)}`, signal ? { signal } : {});

/** Seats can be held. SOLD_OUT may be outdated, so the server decides. */
export const buyable = (event: SaleEvent): boolean => event.status === "ON_SALE" || event.status === "PRESALE" || event.status === "SOLD_OUT";

/** What a place of a section costs, minor units, fee included. */
export const costOf = (section: Section): number => section.price + section.fee;

export const priceOf = (event: SaleEvent, section: string): number => {
  const found = event.sections.find((s) => s.section === section);
  return found ? costOf(found) : 0;
};

/** The event is cancelled, but may take place again. */
export const undoable = (event: SaleEvent): boolean =>
  event.status === "CANCELLED" && event.refundsAt !== undefined && Date.parse(event.refundsAt) > serverNow();

/** The sale is not open to all yet. */
const early = (status: EventStatus): boolean => status === "SCHEDULED" || status === "PRESALE";

/** The state of a sale that is not paused, sold out or over, by its opening times and the clock of the server. */
export function statusByClock(event: SaleEvent): EventStatus {
  const now = serverNow();
  if (!early(event.status) || now >= Date.parse(event.salesOpenAt)) return early(event.status) ? "ON_SALE" : event.status;
  return event.presale && now >= Date.parse(event.presale.opensAt) ? "PRESALE" : "SCHEDULED";
}

/** Milliseconds until the presale or the sale opens, whichever is next, by the clock of the server; negative afterwards. */
function dueOpening(event: SaleEvent): number {
  const next = (statusByClock(event) === "SCHEDULED" && event.presale?.opensAt) || event.salesOpenAt;
  return Date.parse(next) - serverNow();
}

/** The same in seconds; 0 afterwards. */
export const untilOpening = (event: SaleEvent): number => Math.max(0, dueOpening(event) / 1000);

/**
 * Seconds until the next poll of a sale: its next opening, delayed by up to `spread` seconds because all
 * visitors wait for that instant, else a fixed interval.
 */
export function untilChange(event: SaleEvent, spread = unknownCrowd): number | undefined {
  if (undoable(event)) return 30;
  if (isOver(event.status)) return undefined;
  if (early(event.status)) return Math.min(300 + spread * Math.random(), untilTurn(dueOpening(event), spread));
  return event.status === "ON_SALE" ? 120 : 30;
}

/**
 * The sale, shown as open from its opening times on without a poll: visitors of this page need not
 * all poll at that instant. The line has the actual state.
 */
export function useOpening(event: SaleEvent): SaleEvent {
  const [, setShown] = useState<EventStatus>();
  const waits = early(event.status);
  useEffect(() => {
    if (!waits) return undefined;
    const abort = new AbortController();
    const left = () => {
      const status = statusByClock(event);
      setShown(status);
      return early(status) ? Math.min(300, untilOpening(event)) : undefined;
    };
    void repeat(async () => left(), () => undefined, abort.signal);
    return () => abort.abort();
  }, [waits, event.salesOpenAt, event.presale?.opensAt]);
  return { ...event, status: statusByClock(event) };
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
  // Whether the visitor may enter in a presale; undefined if that is not known or of no importance.
  entitled?: boolean | undefined;
}

/** Why nothing can be bought now, and from when on; empty when it can. */
export function SaleNotice({ status, event, waits = false, entitled }: SaleNoticeProps) {
  if (entitled && (status === "SCHEDULED" || status === "PRESALE")) return <PresaleNotice status={status} event={event} />;
  const text = saleText(status, t, waits);
  if (!text) return null;
  const scheduled = status === "SCHEDULED" || status === "PRESALE" ? event : undefined;
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

/** That the visitor may enter in the presale, and from when on. */
function PresaleNotice({ status, event }: { status: EventStatus; event: SaleEvent | undefined }) {
  if (status === "PRESALE") return <Notice tone="good">{t.presaleEntitled}</Notice>;
  const opensAt = event?.presale?.opensAt;
  return (
    <Notice>
      <p>{t.presaleSoon}</p>
      {opensAt && <p>{fill(t.presaleAt, { time: formatEventTime(event.timeZone, opensAt) })}</p>}
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
      {event.fullRefundUntil && <p>{fill(t.fullRefund, { time: formatEventTime(event.timeZone, shownEnd(event, event.fullRefundUntil)) })}</p>}
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
