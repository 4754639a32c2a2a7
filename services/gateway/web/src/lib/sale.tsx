// A sale's state in words, the same on every page on the way to its tickets.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { formatTime } from "./format";
import { serverNow } from "./now";
import { clock, repeat, seen } from "./pace";
import { fill, strings } from "./page";
import { isOver, saleText } from "./standing";
import type { EventStatus, SaleEvent } from "./types";
import { Countdown, Notice } from "./ui";

const t = strings("sale");

export const readEvent = (eventId: string, signal?: AbortSignal): Promise<SaleEvent> =>
  call<SaleEvent>("GET", `/events/${encodeURIComponent(eventId)}`, signal ? { signal } : {});

/** Seats can be held; SOLD_OUT may be a moment old, so that the server decides. */
export const buyable = (event: SaleEvent): boolean => event.status === "ON_SALE" || event.status === "SOLD_OUT";

/** Seconds until the sale opens, by the server's clock; none are left once it has. */
const untilOpening = (event: SaleEvent): number => Math.max(0, (Date.parse(event.salesOpenAt) - serverNow()) / 1000);

/**
 * Seconds until a sale's state is worth another question: its opening, spread over `spread` seconds since everybody waits
 * for the same instant; now and then while it may change otherwise.
 */
export function untilChange(event: SaleEvent, spread = 2): number | undefined {
  if (isOver(event.status)) return undefined;
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

interface SaleNoticeProps {
  status: EventStatus | undefined;
  // The opening, once it is known.
  opensAt: string | undefined;
  // Of somebody who has a place in the line.
  waits?: boolean;
}

/** Why nothing can be bought right now, and from when on; nothing while it can. */
export function SaleNotice({ status, opensAt, waits = false }: SaleNoticeProps) {
  const text = saleText(status, t, waits);
  if (!text) return null;
  const scheduled = status === "SCHEDULED" && opensAt !== undefined;
  return (
    <Notice tone={status === "CANCELLED" ? "bad" : "info"}>
      <p>{text}</p>
      {scheduled && waits && <p>{fill(t.opensAt, { time: formatTime(opensAt) })}</p>}
      {scheduled && <Opening at={Date.parse(opensAt)} />}
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
