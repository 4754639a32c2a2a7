// The calls of a payment. Each can be repeated safely.

import { call, follow, once } from "../lib/api";
import { clock, repeat } from "../lib/pace";
import { serverNow } from "../lib/now";
import { spread } from "../lib/poll";
import { readStored, writeStored } from "../lib/store";
import { uuid } from "../lib/uuid";
import type { Confirmed, Payment, Prepared } from "../lib/types";
import { type Bill, endPayment, type Read, type Source } from "./bill";
import { arrived } from "./returned";

/** The state of the checkout. */
export interface Step<B extends Bill = Bill> {
  source: Source<B>;
  bill: B;
  paymentId?: string | undefined;
  // Whether the provider reported the charge.
  charged?: boolean | undefined;
  // The decline code of the last attempt.
  declined?: string | undefined;
  // Seconds until the provider is asked about the payment under way, where many wait.
  behind?: number;
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

const paymentKey = (source: { id: string }) => `urr-payment-${source.id}`;

/** Seconds until the nth poll. */
const pause = (polls: number): number => (polls < 5 ? 0.5 : polls < 30 ? 1 : 3);

/** The names of the providers that take a bill, among which the buyer chooses; none where they cannot be read. */
export const readProviders = ({ currency, amount }: Bill): Promise<string[]> =>
  call<{ providers: string[] }>("GET", `/payments/providers?currency=${currency}&amount=${amount}`).then((list) => list.providers, () => []);

/**
 * Opens the payment, or returns the open one. While it is PREPARED without a page its provider has
 * not answered, and the request is repeated.
 */
async function prepare({ paymentType, id }: Source<Bill>, provider: string): Promise<Prepared> {
  const body = { paymentType, referenceId: id, provider };
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
export async function begin<B extends Bill>(step: Step<B>, provider: string): Promise<Step<B> | Prepared | "leaving"> {
  const { source, bill } = step;
  try {
    const prepared = await prepare(source, provider);
    const next: Step<B> = { source, bill, paymentId: prepared.paymentId, attempt: (step.attempt ?? 0) + 1 };
    const address = pageAddress(prepared.page);
    writeStored(sessionStorage, paymentKey(source), prepared.paymentId);
    if (address) {
      location.assign(address);
      return "leaving";
    }
    if (prepared.status === "PREPARED") return prepared.provider === "none" ? await pay(step, prepared, "ok") : prepared;
    // Another tab has gone on with it, or ended it.
    return { ...next, bill: { ...bill, status: "PAYING" } };
  } catch (failure) {
    return failed(step, failure);
  }
}

async function failed<B extends Bill>(step: Step<B>, failure: unknown): Promise<Step<B>> {
  follow(failure);
  const bill = await step.source.read().catch(() => step.bill);
  return { source: step.source, bill, failure, attempt: (step.attempt ?? 0) + 1, paymentId: step.paymentId };
}

/** Gives up the open payment; what is paid stays the buyer's to pay. Never throws. */
export async function giveUp<B extends Bill>(step: Step<B>, { paymentId }: Payment): Promise<Step<B>> {
  const { source, bill, attempt = 0 } = step;
  try {
    await endPayment(paymentId);
    const next: Step<B> = { source, bill, paymentId, attempt };
    return nextStep(next, await source.readWith(paymentId)) ?? next;
  } catch (failure) {
    follow(failure);
    return { ...step, failure };
  }
}

/** Gives back what is not paid, also while a payment of it is open. */
export async function giveBack<B extends Bill>({ source, bill, open }: Step<B>): Promise<Step<B>> {
  await source.release?.(open);
  return { source, bill: { ...bill, status: "CANCELLED" } };
}

/**
 * The state of a checkout that is opened or reloaded, since a reload may have missed the outcome, and
 * a payment may be open in another tab or browser.
 */
export async function open<B extends Bill>(source: Source<B>, signal: AbortSignal): Promise<Step<B>> {
  const back = arrived();
  const paymentId = back?.paymentId ?? readStored(sessionStorage, paymentKey(source));
  const read = await source.readWith(paymentId || undefined, signal);
  if (back) {
    // A reload is to show the latest payment.
    writeStored(sessionStorage, paymentKey(source), back.paymentId);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const step: Step<B> = { source, bill: read.bill, ...(read.payment ? { paymentId: read.payment.paymentId } : {}) };
  return nextStep(step, read) ?? step;
}

/** Charges once, even if the call is repeated. The provider may take ten seconds. */
function confirmOnce(prepared: Prepared, answer: SandboxAnswer): Promise<Confirmed> {
  const body = { orderId: prepared.orderId, paymentKey: `${answer}-${uuid()}`, amount: prepared.amount };
  return once<Confirmed>("POST", "/payments/confirm", { body, seconds: 30 });
}

/** Pays by a form of this page and returns the next step; never throws. */
export async function pay<B extends Bill>(step: Step<B>, prepared: Prepared, answer: SandboxAnswer): Promise<Step<B>> {
  const { source, bill } = step;
  const attempt = (step.attempt ?? 0) + 1;
  try {
    const confirmed = await confirmOnce(prepared, answer);
    const next: Step<B> = { source, bill, paymentId: prepared.paymentId, attempt };
    if (confirmed.status === "DECLINED") {
      return ended({ ...next, bill: await source.read().catch(() => bill) }, confirmed.declineCode || "DECLINED");
    }
    // From here on the server decides; PAYING makes the page poll it.
    next.bill = { ...bill, status: "PAYING" };
    next.charged = confirmed.status === "CONFIRMED";
    return next;
  } catch (failure) {
    // The payment's id stays, so that it is known whether it has ended.
    return failed({ ...step, paymentId: prepared.paymentId }, failure);
  }
}

/** The step after a payment that was declined, or never charged. */
function ended<B extends Bill>({ source, bill, attempt = 0 }: Step<B>, declined?: string): Step<B> {
  writeStored(sessionStorage, paymentKey(source), "");
  return { source, bill, attempt: attempt + 1, ...(declined ? { declined } : { unpaid: true }) };
}

/**
 * Polls until the bill is neither being paid nor kept for an open payment, or until the open
 * payment is another one or is being charged.
 */
export function awaitOutcome<B extends Bill>(step: Step<B>, show: (step: Step<B>) => void, signal: AbortSignal): Promise<void> {
  let polls = 0;
  let shown = step.behind;
  const attempt = async () => {
    const { next, behind } = await readNext(step, signal);
    if (next && !(next.open && next.open.paymentId === step.open?.paymentId && next.open.status === step.open.status)) return show(next);
    if (!next && step.open) return show({ ...step, open: undefined });
    if (behind !== shown) show({ ...step, behind: (shown = behind) });
    return step.open ? 3 : pause(++polls);
  };
  return repeat(attempt, (failure, retryIn) => retryIn ?? (follow(failure) || show({ ...step, failure })), signal);
}

/**
 * Polls a hold until it ends: the server decides about its end, and another tab may pay or cancel
 * it.
 */
export function watchHold<B extends Bill>(step: Step<B>, show: (step: Step<B>) => void, signal: AbortSignal): Promise<void> {
  let asked = false;
  const attempt = async () => {
    const bill = asked ? await step.source.read(signal) : step.bill;
    asked = true;
    if (bill.status !== "HELD") return show({ ...step, bill });
    const left = (Date.parse(bill.expiresAt) - serverNow()) / 1000;
    return Math.min(15, Math.max(1, left + 0.2));
  };
  return repeat(attempt, (failure, retryIn) => retryIn ?? follow(failure), signal);
}

/** The next step, undefined while the payment is in progress, and how long its turn takes. */
async function readNext<B extends Bill>(step: Step<B>, signal: AbortSignal): Promise<{ next: Step<B> | undefined; behind: number }> {
  // A payment whose confirmation had an answer is asked for only once the bill is to be paid again.
  if (step.charged !== undefined) {
    const bill = await step.source.read(signal);
    if (bill.status !== "HELD") return { next: nextStep(step, { bill }), behind: 0 };
  }
  const read = await step.source.readWith(step.paymentId, signal);
  return { next: nextStep(step, read), behind: read.payment?.waitSeconds ?? 0 };
}

function nextStep<B extends Bill>(step: Step<B>, { bill, payment }: Read<B>): Step<B> | undefined {
  const paying = bill.status === "PAYING";
  const next: Step<B> = { ...step, bill, open: undefined };
  if (!payment) return paying ? undefined : next;
  next.paymentId = payment.paymentId;
  if (payment.status === "OPEN" || (payment.status === "PREPARED" && paying)) return { ...next, open: payment };
  if (payment.status === "PREPARED") return next;
  if (paying) return undefined;
  // Held again: the payment was declined, or the reservation is not updated yet.
  if (payment.status === "DECLINED") return ended(next, payment.declineCode || "DECLINED");
  return payment.status === "EXPIRED" ? ended(next) : undefined;
}
