// The calls of a payment, each safe to repeat: a key that the browser keeps names the attempt.

import { call, follow, once } from "../lib/api";
import { repeat } from "../lib/pace";
import { serverNow } from "../lib/now";
import { recall, remember } from "../lib/store";
import { uuid } from "../lib/uuid";
import type { Confirmed, Payment, Prepared, Reservation } from "../lib/types";

/** Where the checkout stands. */
export interface Step {
  reservation: Reservation;
  paymentId?: string | undefined;
  // The provider said that the money was taken.
  charged?: boolean;
  // Why the last attempt was declined; empty codes are shown as such.
  declined?: string | undefined;
  failure?: unknown;
  // Counts the attempts, so that each is prepared anew.
  attempt?: number;
}

/** What the sandbox provider is told to answer; it reads the payment key up to its first dash. */
export const sandboxAnswers = ["ok", "decline", "slow", "late", "late-decline", "timeout", "lost"] as const;

export type SandboxAnswer = (typeof sandboxAnswers)[number];

const prepareKey = (reservationId: string) => `urr-prepare-${reservationId}`;
const paymentKey = (reservationId: string) => `urr-payment-${reservationId}`;

/** Opens the payment, or finds the open one again: a reloaded page sends the same key. */
export function prepare(reservationId: string, signal: AbortSignal): Promise<Prepared> {
  const key = recall(sessionStorage, prepareKey(reservationId)) || uuid();
  remember(sessionStorage, prepareKey(reservationId), key);
  return call<Prepared>("POST", "/payments/prepare", {
    body: { paymentType: "reservation", referenceId: reservationId },
    headers: { "Idempotency-Key": key },
    signal,
  });
}

/** The payment prepared under the kept key is over; the next one needs another. */
function endAttempt(reservationId: string): void {
  remember(sessionStorage, prepareKey(reservationId), "");
  remember(sessionStorage, paymentKey(reservationId), "");
}

const readReservation = (id: string, signal?: AbortSignal) =>
  call<Reservation>("GET", `/my/reservations/${id}`, signal ? { signal } : {});

/** Where a checkout that is opened, or opened again, stands: a reload may have missed how the payment went. */
export async function open(reservationId: string, signal: AbortSignal): Promise<Step> {
  const reservation = await readReservation(reservationId, signal);
  const paymentId = recall(sessionStorage, paymentKey(reservationId));
  const step: Step = { reservation, ...(paymentId ? { paymentId } : {}) };
  return (reservation.status === "HELD" && (await look(step, signal))) || step;
}

/** Charges once, however often the call has to be repeated. The provider may take ten seconds. */
function confirmOnce(prepared: Prepared, answer: SandboxAnswer): Promise<Confirmed> {
  const body = { orderId: prepared.orderId, paymentKey: `${answer}-${uuid()}`, amount: prepared.amount };
  return once<Confirmed>("POST", "/payments/confirm", { body, seconds: 30 });
}

/** Pays, and says where that leads; never throws. */
export async function pay(step: Step, prepared: Prepared, answer: SandboxAnswer): Promise<Step> {
  const { reservation } = step;
  const attempt = (step.attempt ?? 0) + 1;
  remember(sessionStorage, paymentKey(reservation.reservationId), prepared.paymentId);
  try {
    const confirmed = await confirmOnce(prepared, answer);
    const next: Step = { reservation, paymentId: prepared.paymentId, attempt };
    if (confirmed.status === "DECLINED") return await declined(next, confirmed.declineCode);
    // From here on the server's word counts; PAYING makes the page ask for it.
    next.reservation = { ...reservation, status: "PAYING" };
    next.charged = confirmed.status === "CONFIRMED";
    return next;
  } catch (failure) {
    follow(failure);
    endAttempt(reservation.reservationId);
    const now = await readReservation(reservation.reservationId).catch(() => reservation);
    return { reservation: now, failure, attempt, paymentId: prepared.paymentId };
  }
}

async function declined(step: Step, code: string | undefined): Promise<Step> {
  endAttempt(step.reservation.reservationId);
  const now = await readReservation(step.reservation.reservationId).catch(() => step.reservation);
  return { reservation: now, declined: code || "DECLINED", attempt: (step.attempt ?? 0) + 1 };
}

/** Asks until the reservation is neither being paid nor held for a payment that is still open. */
export function settle(step: Step, show: (step: Step) => void, signal: AbortSignal): Promise<void> {
  let polls = 0;
  const attempt = async () => {
    const next = await look(step, signal);
    if (next) return show(next);
    return ++polls < 5 ? 0.5 : polls < 30 ? 1 : 3;
  };
  return repeat(attempt, (failure, retryIn) => retryIn ?? (follow(failure) || show({ ...step, failure })), signal);
}

/** Asks about a hold until it is one no more: its end is the server's to say, and another tab may pay or give it back. */
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

/** The next step, or nothing while the payment is under way. */
async function look(step: Step, signal: AbortSignal): Promise<Step | undefined> {
  const reservation = await readReservation(step.reservation.reservationId, signal);
  if (reservation.status === "PAYING") return undefined;
  if (reservation.status !== "HELD" || !step.paymentId) return { ...step, reservation };
  // Held again: the payment was declined, or the reservation does not know of it yet.
  const payment = await call<Payment>("GET", `/payments/${step.paymentId}`, { signal });
  if (payment.status === "DECLINED") return declined({ ...step, reservation }, payment.declineCode);
  if (payment.status === "PREPARED") return { ...step, reservation };
  if (payment.status !== "EXPIRED") return undefined;
  endAttempt(reservation.reservationId);
  return { reservation, attempt: (step.attempt ?? 0) + 1 };
}
