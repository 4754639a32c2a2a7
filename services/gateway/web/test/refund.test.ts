import "./browser";
import { match } from "node:assert/strict";
import { test } from "node:test";
import { cancellationFees, refundTerms, refundText } from "../src/lib/refund";
import type { SaleEvent, Ticket } from "../src/lib/types";

const end = "2030-01-10T10:00:00Z";
const event = (closesAt: string): SaleEvent =>
  ({
    timeZone: "Europe/Berlin",
    salesOpenAt: "2029-12-01T10:00:00Z",
    closesAt,
    refundUntil: end,
    cancellationFees: { steps: [{ until: "2029-12-24T10:00:00Z", percent: 0 }, { until: closesAt, percent: 30 }] },
  }) as SaleEvent;
const ticket = { price: 100, fee: 0, currency: "KRW", refundable: { until: end, amount: 100 } } as Ticket;

/** Every sentence about the end of refunds. */
const sentences = (e: SaleEvent): string[] => [
  refundText(ticket, { ...e, cancellationFees: { steps: [] } }),
  refundText({ ...ticket, refundable: { ...ticket.refundable, fullUntil: end } }, e),
  refundTerms(e),
  cancellationFees(e).at(-1) ?? "",
];

test("refunds that end as the doors get their lists are shown to end a minute earlier", () => {
  for (const text of sentences(event(end))) match(text, /10:59/);
});

test("refunds that end before that are shown to end when they do", () => {
  for (const text of sentences(event("2030-01-10T12:00:00Z"))) match(text, /11:00/);
});
