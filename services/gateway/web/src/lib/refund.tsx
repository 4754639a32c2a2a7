// What comes back for tickets: how much, until when, and why not.

import { formatMoney } from "./format";
import { fill, strings } from "./page";
import type { SaleEvent, Ticket } from "./types";
import { formatEventTime } from "./zone";

const t = strings("refund");

/** What the holder of a ticket gets back for it, or why nothing. */
export function refundText(ticket: Ticket, event: SaleEvent | undefined): string {
  const { reason, until, amount } = ticket.refundable;
  const time = until ? formatEventTime(event?.timeZone, until) : "";
  if (reason) return fill(t[reason] ?? reason, { time });
  const back = fill(t.back, { amount: formatMoney(amount, ticket.currency), time });
  return ticket.fee > 0 ? `${back} ${fill(t.feeStays, { fee: formatMoney(ticket.fee, ticket.currency) })}` : back;
}

/** Until when tickets of a sale can be given back; a time before the sale says so. */
export function refundTerms(event: SaleEvent): string {
  if (!event.refundUntil) return t.never;
  const late = Date.parse(event.refundUntil) <= Date.parse(event.salesOpenAt);
  return fill(late ? t.overBeforeSale : t.until, { time: formatEventTime(event.timeZone, event.refundUntil) });
}
