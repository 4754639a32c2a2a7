// The calls of a payment. Each can be repeated safely.

import { call, follow, once, Problem } from "../lib/api";
import { clock, repeat } from "../lib/pace";
import { serverNow } from "../lib/now";
import { spread } from "../lib/poll";
import { readStored, writeStored } from "../lib/store";
import { uuid } from "../lib/uuid";
import type { Checkout, Confirmed, Payment, Prepared, Reservation } from "../lib/types";
import { arrived } from "./returned";

/** The state of the checkout. */
export interface Step {
  reservation: Reservation;
  paymentId?: string | undefined;
  // Whether the provider reported the charge.
  charged?: boolean | undefined;
  // The decline code of the last attempt.
  declined?: string | undefined;
  // Whether the last payment ended without a charge.
  unpaid?: boolean;
  failure?: unknown;
  // The payment that is open although nothing was charged: it may be made, or given up.
  open?: Payment | undefined;
  // The number of attempts, since each has to be prepared.
  attempt?: number;
}

/** The answers of the sandbox provider; it reads the payment key up to its first dash. */
export const sandboxAnswers = ["ok", "decline", "slow", "late", "late-decline", "timeout", "lost"] as const;

export type SandboxAnswer = (typeof sandboxAnswers)[number];

const paymentKey = (reservationId: string) => `urr-payment-${reservationId}`;

/** Seconds until the nth poll. */
const pause = (polls: number): number => (polls < 5 ? 0.5 : polls < 30 ? 1 : 3);

/** The names of the providers among which the buyer chooses; none where they cannot be read. */
export const readProviders = (): Promise<string[]> =>
  call<{ providers: string[] }>("GET", "/payments/providers").then((list) => list.providers, () => []);

/**
 * Opens the payment, or returns the open one. While it is PREPARED without a page its provider has
 * not answered, and the request is repeated.
 */
async function prepare(reservationId: string, provider: string): Promise<Prepared> {
  const body = { paymentType: "reservation", referenceId: reservationId, provider };
  const headers = { "Idempotency-Key": uuid() };
  for (let polls = 1; ; polls++) {
    const prepared = await once<Prepared>("POST", "/payments/prepare", { body, headers, seconds: 30 });
    if (prepared.status !== "PREPARED" || prepared.page || prepared.provider === "none") return prepared;
    await clock.wait(spread(pause(polls)));
  }
}

/** The address of a provider's page, unless it is none that a buyer may be sent to. */
export function pageAddress(page: { url?: string } | undefined): string | undefined {
  try {
    const url = new URL(page?.url ?? "");
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Begins to pay: goes to the provider's page, gets tickets that cost nothing, or returns the payment
 * that a form on this page makes. Never throws.
 */
export async function begin(step: Step, provider: string): Promise<Step | Prepared | "leaving"> {
  const { reservation } = step;
  try {
    const prepared = await prepare(reservation.reservationId, provider);
    const next: Step = { reservation, paymentId: prepared.paymentId, attempt: (step.attempt ?? 0) + 1 };
    const address = pageAddress(prepared.page);
    writeStored(sessionStorage, paymentKey(reservation.reservationId), prepared.paymentId);
    if (address) {
      location.assign(address);
      return "leaving";
    }
    if (prepared.status === "PREPARED") return prepared.provider === "none" ? await pay(step, prepared, "ok") : prepared;
    // Another tab has gone on with it, or ended it.
    return { ...next, reservation: { ...reservation, status: "PAYING" } };
  } catch (failure) {
    return failed(step, failure);
  }
}

async function failed(step: Step, failure: unknown): Promise<Step> {
  follow(failure);
  const { reservationId } = step.reservation;
  const reservation = await readReservation(reservationId).catch(() => step.reservation);
  return { reservation, failure, attempt: (step.attempt ?? 0) + 1, paymentId: step.paymentId };
}

/** Gives up the open payment; the places stay held. Never throws. */
export async function giveUp(step: Step, payment: Payment): Promise<Step> {
  try {
    await once<Payment>("POST", `/payments/${payment.paymentId}/cancel`, { body: {} });
    const next: Step = { reservation: step.reservation, paymentId: payment.paymentId, attempt: step.attempt ?? 0 };
    return nextStep(next, await readCheckout(step.reservation.reservationId, payment.paymentId)) ?? next;
  } catch (failure) {
    follow(failure);
    return { ...step, failure };
  }
}

/** Gives the places back, also while a payment for them is open. */
export async function giveBack({ reservation, open }: Step): Promise<Step> {
  const release = () => call<void>("DELETE", `/my/reservations/${reservation.reservationId}`);
  await release().catch(async (cause: unknown) => {
    if (!open || !(cause instanceof Problem) || cause.code !== "RESERVATION_NOT_HELD") throw cause;
    // Its charge was tried, but not sent: it has to be ended first.
    await once<Payment>("POST", `/payments/${open.paymentId}/cancel`, { body: {} });
    await release();
  });
  return { reservation: { ...reservation, status: "CANCELLED" } };
}

const readReservation = (id: string, signal?: AbortSignal) =>
  call<Reservation>("GET", `/my/reservations/${id}`, signal ? { signal } : {});

/**
 * Reads a reservation, and, while it is not paid, the payment under way, else the one that is asked
 * for; in one call if they are the same.
 */
async function readCheckout(id: string, paymentId: string | undefined, signal?: AbortSignal): Promise<Checkout> {
  const read: Checkout = paymentId
    ? await call<Checkout>("GET", `/my/reservations/${id}/payments/${paymentId}`, signal ? { signal } : {})
    : { reservation: await readReservation(id, signal) };
  const underWay = read.reservation.paymentId;
  return underWay && underWay !== read.payment?.paymentId && underWay !== paymentId ? readCheckout(id, underWay, signal) : read;
}

/**
 * The state of a checkout that is opened or reloaded, since a reload may have missed the outcome, and
 * a payment may be open in another tab or browser.
 */
export async function open(reservationId: string, signal: AbortSignal): Promise<Step> {
  const back = arrived();
  const paymentId = back?.paymentId ?? readStored(sessionStorage, paymentKey(reservationId));
  const read = await readCheckout(reservationId, paymentId, signal);
  if (back) {
    // A reload is to show the latest payment.
    writeStored(sessionStorage, paymentKey(reservationId), back.paymentId);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const step: Step = { reservation: read.reservation, ...(read.payment ? { paymentId: read.payment.paymentId } : {}) };
  return nextStep(step, read) ?? step;
}

/** Charges once, even if the call is repeated. The provider may take ten seconds. */
function confirmOnce(prepared: Prepared, answer: SandboxAnswer): Promise<Confirmed> {
  const body = { orderId: prepared.orderId, paymentKey: `${answer}-${uuid()}`, amount: prepared.amount };
  return once<Confirmed>("POST", "/payments/confirm", { body, seconds: 30 });
}

/** Pays by a form of this page and returns the next step; never throws. */
export async function pay(step: Step, prepared: Prepared, answer: SandboxAnswer): Promise<Step> {
  const { reservation } = step;
  const attempt = (step.attempt ?? 0) + 1;
  try {
    const confirmed = await confirmOnce(prepared, answer);
    const next: Step = { reservation, paymentId: prepared.paymentId, attempt };
    if (confirmed.status === "DECLINED") {
      const now = await readReservation(reservation.reservationId).catch(() => reservation);
      return ended({ ...next, reservation: now }, confirmed.declineCode || "DECLINED");
    }
    // From here on the server decides; PAYING makes the page poll it.
    next.reservation = { ...reservation, status: "PAYING" };
    next.charged = confirmed.status === "CONFIRMED";
    return next;
  } catch (failure) {
    // The payment's id stays, so that it is known whether it has ended.
    return failed({ ...step, paymentId: prepared.paymentId }, failure);
  }
}

/** The step after a payment that was declined, or never charged. */
function ended({ reservation, attempt = 0 }: Step, declined?: string): Step {
  writeStored(sessionStorage, paymentKey(reservation.reservationId), "");
  return { reservation, attempt: attempt + 1, ...(declined ? { declined } : { unpaid: true }) };
}

/**
 * Polls until the reservation is neither being paid nor held for an open payment, or until the open
 * payment is another one or is being charged.
 */
export function awaitOutcome(step: Step, show: (step: Step) => void, signal: AbortSignal): Promise<void> {
  let polls = 0;
  const attempt = async () => {
    const next = await readNext(step, signal);
    if (next && !(next.open && next.open.paymentId === step.open?.paymentId && next.open.status === step.open.status)) return show(next);
    if (!next && step.open) return show({ ...step, open: undefined });
    return step.open ? 3 : pause(++polls);
  };
  return repeat(attempt, (failure, retryIn) => retryIn ?? (follow(failure) || show({ ...step, failure })), signal);
}

/**
 * Polls a hold until it ends: the server decides about its end, and another tab may pay or cancel
 * it.
 */
export function watchHold(step: Step, show: (step: Step) => void, signal: AbortSignal): Promise<void> {
  let asked = false;
  const attempt = async () => {
    const reservation = asked ? await readReservation(step.reservation.reservationId, signal) : step.reservation;
    asked = true;
    if (reservation.status !== "HELD") return show({ ...step, reservation });
    const left = (Date.parse(reservation.expiresAt) - serverNow()) / 1000;
    return Math.min(15, Math.max(1, left + 0.2));
  };
  return repeat(attempt, (failure, retryIn) => retryIn ?? follow(failure), signal);
}

/** The next step; undefined while the payment is in progress. */
async function readNext(step: Step, signal: AbortSignal): Promise<Step | undefined> {
  const { reservationId } = step.reservation;
  // A payment whose confirmation had an answer is asked for only once the places are held again.
  if (step.charged !== undefined) {
    const reservation = await readReservation(reservationId, signal);
    if (reservation.status !== "HELD") return nextStep(step, { reservation });
  }
  return nextStep(step, await readCheckout(reservationId, step.paymentId, signal));
}

function nextStep(step: Step, { reservation, payment }: Checkout): Step | undefined {
  const paying = reservation.status === "PAYING";
  const next: Step = { ...step, reservation, open: undefined };
  if (!payment) return paying ? undefined : next;
  next.paymentId = payment.paymentId;
  if (payment.status === "OPEN" || (payment.status === "PREPARED" && paying)) return { ...next, open: payment };
  if (payment.status === "PREPARED") return next;
  if (paying) return undefined;
  // Held again: the payment was declined, or the reservation is not updated yet.
  if (payment.status === "DECLINED") return ended(next, payment.declineCode || "DECLINED");
  return payment.status === "EXPIRED" ? ended(next) : undefined;
}
