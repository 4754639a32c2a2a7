// The calls of a payment. Each can be repeated safely: a key kept in the browser identifies the
// attempt.

import { call, follow, once } from "../lib/api";
import { repeat } from "../lib/pace";
import { serverNow } from "../lib/now";
import { readStored, writeStored } from "../lib/store";
import { uuid } from "../lib/uuid";
import type { Checkout, Confirmed, Prepared, Reservation } from "../lib/types";

/** The state of the checkout. */
export interface Step {
  reservation: Reservation;
  paymentId?: string | undefined;
  // Whether the provider reported the charge.
  charged?: boolean;
  // The decline code of the last attempt.
  declined?: string | undefined;
  failure?: unknown;
  // Whether the reservation is PAYING although nothing was charged: the same payment may be made again.
  again?: boolean;
  // The number of attempts, since each has to be prepared.
  attempt?: number;
}

/** The answers of the sandbox provider; it reads the payment key up to its first dash. */
export const sandboxAnswers = ["ok", "decline", "slow", "late", "late-decline", "timeout", "lost"] as const;

export type SandboxAnswer = (typeof sandboxAnswers)[number];

const prepareKey = (reservationId: string) => `urr-prepare-${reservationId}`;
const paymentKey = (reservationId: string) => `urr-payment-${reservationId}`;

/** Opens the payment, or returns the open one: a reloaded page sends the same key. */
export function prepare(reservationId: string, signal: AbortSignal): Promise<Prepared> {
  const key = readStored(sessionStorage, prepareKey(reservationId)) || uuid();
  writeStored(sessionStorage, prepareKey(reservationId), key);
  return call<Prepared>("POST", "/payments/prepare", {
    body: { paymentType: "reservation", referenceId: reservationId },
    headers: { "Idempotency-Key": key },
    signal,
  });
}

/** Forgets the keys of an ended payment; the next payment needs another one. */
function endAttempt(reservationId: string): void {
  writeStored(sessionStorage, prepareKey(reservationId), "");
  writeStored(sessionStorage, paymentKey(reservationId), "");
}

const readReservation = (id: string, signal?: AbortSignal) =>
  call<Reservation>("GET", `/my/reservations/${id}`, signal ? { signal } : {});

/** Reads a reservation, and, while it is not paid, one of its payments, in one call. */
async function readCheckout(id: string, paymentId: string | undefined, signal: AbortSignal): Promise<Checkout> {
  if (!paymentId) return { reservation: await readReservation(id, signal) };
  return call<Checkout>("GET", `/my/reservations/${id}/payments/${paymentId}`, { signal });
}

/**
 * The state of a checkout that is opened or reloaded, since a reload may have missed the outcome.
 */
export async function open(reservationId: string, signal: AbortSignal): Promise<Step> {
  const paymentId = readStored(sessionStorage, paymentKey(reservationId));
  const read = await readCheckout(reservationId, paymentId, signal);
  const step: Step = { reservation: read.reservation, ...(paymentId ? { paymentId } : {}) };
  return (await nextStep(step, read)) ?? step;
}

/** Charges once, even if the call is repeated. The provider may take ten seconds. */
function confirmOnce(prepared: Prepared, answer: SandboxAnswer): Promise<Confirmed> {
  const body = { orderId: prepared.orderId, paymentKey: `${answer}-${uuid()}`, amount: prepared.amount };
  return once<Confirmed>("POST", "/payments/confirm", { body, seconds: 30 });
}

/** Pays and returns the next step; never throws. */
export async function pay(step: Step, prepared: Prepared, answer: SandboxAnswer): Promise<Step> {
  const { reservation } = step;
  const attempt = (step.attempt ?? 0) + 1;
  writeStored(sessionStorage, paymentKey(reservation.reservationId), prepared.paymentId);
  try {
    const confirmed = await confirmOnce(prepared, answer);
    const next: Step = { reservation, paymentId: prepared.paymentId, attempt };
    if (confirmed.status === "DECLINED") return await declined(next, confirmed.declineCode);
    // From here on the server decides; PAYING makes the page poll it.
    next.reservation = { ...reservation, status: "PAYING" };
    next.charged = confirmed.status === "CONFIRMED";
    return next;
  } catch (failure) {
    follow(failure);
    // Another key: the payment may have ended. Its id stays, so that it is known whether it has.
    writeStored(sessionStorage, prepareKey(reservation.reservationId), "");
    const now = await readReservation(reservation.reservationId).catch(() => reservation);
    return { reservation: now, failure, attempt, paymentId: prepared.paymentId };
  }
}

async function declined(step: Step, code: string | undefined): Promise<Step> {
  endAttempt(step.reservation.reservationId);
  const now = await readReservation(step.reservation.reservationId).catch(() => step.reservation);
  return { reservation: now, declined: code || "DECLINED", attempt: (step.attempt ?? 0) + 1 };
}

/**
 * Polls until the reservation is neither being paid nor held for an open payment, or until the same
 * payment may be made again.
 */
export function awaitOutcome(step: Step, show: (step: Step) => void, signal: AbortSignal): Promise<void> {
  let polls = 0;
  const attempt = async () => {
    const next = await readNext(step, signal);
    if (next && !(next.again && step.again)) return show(next);
    return step.again ? 3 : ++polls < 5 ? 0.5 : polls < 30 ? 1 : 3;
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
  const answered = step.charged !== undefined;
  const read = await readCheckout(reservationId, answered ? undefined : step.paymentId, signal);
  const heldAgain = answered && read.reservation.status === "HELD";
  return nextStep(step, heldAgain ? await readCheckout(reservationId, step.paymentId, signal) : read);
}

async function nextStep(step: Step, { reservation, payment }: Checkout): Promise<Step | undefined> {
  const paying = reservation.status === "PAYING";
  if (!payment) return paying ? undefined : { ...step, reservation };
  if (paying) return payment.status === "PREPARED" ? { ...step, reservation, again: true } : undefined;
  // Held again: the payment was declined, or the reservation is not updated yet.
  if (payment.status === "DECLINED") return declined({ ...step, reservation }, payment.declineCode);
  if (payment.status === "PREPARED") return { ...step, reservation };
  if (payment.status !== "EXPIRED") return undefined;
  endAttempt(reservation.reservationId);
  return { reservation, attempt: (step.attempt ?? 0) + 1 };
}
