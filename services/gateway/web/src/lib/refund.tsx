// What comes back for tickets: how much, until when, and why not.

import { formatMoney } from "./format";
import { serverNow } from "./now";
import { fill, strings } from "./page";
import type { SaleEvent, Ticket } from "./types";
import { formatEventTime } from "./zone";

const t = strings("refund");

/**
 * The end of refunds by users, as it is shown. A refund that is asked for before the end is still
 * decided before the doors get their lists: where both are one, the end shown is a minute earlier.
 */
export function shownEnd(event: SaleEvent | undefined, end: string): string {
  return end === event?.closesAt ? new Date(Date.parse(end) - 60_000).toISOString() : end;
}

/** What the holder of a ticket gets back for it, or why nothing. */
export function refundText(ticket: Ticket, event: SaleEvent | undefined): string {
  const { reason, until, amount, fullUntil } = ticket.refundable;
  const timeOf = (at: string | undefined): string => (at ? formatEventTime(event?.timeZone, shownEnd(event, at)) : "");
  if (reason) return fill(t[reason] ?? reason, { time: timeOf(until) });
  if (fullUntil) {
    const full = fill(t.back, { amount: formatMoney(amount, ticket.currency), time: timeOf(fullUntil) });
    return until && Date.parse(until) > Date.parse(fullUntil) ? `${full} ${fill(t.less, { time: timeOf(until) })}` : full;
  }
  const step = event?.cancellationFees?.steps.find((next) => Date.parse(next.until) > serverNow());
  const earlier = step && until && Date.parse(step.until) < Date.parse(until) ? step.until : until;
  const back = fill(t.back, { amount: formatMoney(amount, ticket.currency), time: timeOf(earlier) });
  const kept = ticket.price + ticket.fee - amount;
  return kept > 0 ? `${back} ${fill(t.kept, { kept: formatMoney(kept, ticket.currency) })}` : back;
}

/** What is kept of the price, and until when: a line for each time. */
export function cancellationFees(event: SaleEvent): string[] {
  const end = event.refundUntil;
  if (!end) return [];
  const steps = event.cancellationFees?.steps ?? [];
  const early = steps.slice(0, -1).filter((step) => Date.parse(step.until) < Date.parse(end));
  const last = steps[early.length]; // its share is kept until the end
  return [...early, ...(last ? [{ ...last, until: shownEnd(event, end) }] : [])].map(({ until, percent }) =>
    fill(t.step, { percent, time: formatEventTime(event.timeZone, until) }),
  );
}

/** Until when tickets of a sale can be given back; a time before the sale says so. */
export function refundTerms(event: SaleEvent): string {
  if (!event.refundUntil) return event.fullRefundUntil ? t.soldSince : t.never;
  const late = Date.parse(event.refundUntil) <= Date.parse(event.salesOpenAt);
  return fill(late ? t.overBeforeSale : t.until, { time: formatEventTime(event.timeZone, shownEnd(event, event.refundUntil)) });
}
