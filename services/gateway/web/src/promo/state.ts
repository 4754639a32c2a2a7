// The calls of a promotion. Each can be repeated safely.

import { call, Problem } from "../lib/api";
import type { DrawDocument } from "../lib/fairdraw";
import { hasSession } from "../lib/frame";
import { serverNow } from "../lib/now";
import { clock } from "../lib/pace";
import { backoff } from "../lib/problem";
import { keepCopy, keepReceipt } from "../lib/receipts";
import { drawSpread } from "../lib/drawn";
import { isSoldOut, promotionPath, readPromotion } from "../lib/request";
import { unknownCrowd, untilTurn } from "../lib/spread";
import { readStored, writeStored } from "../lib/store";
import type { Applied, EventRequest, Promotion } from "../lib/types";
import { uuid } from "../lib/uuid";

export interface State {
  promotion: Promotion;
  // Undefined without a session, and before the visitor applies.
  own: EventRequest | undefined;
  // Lottery, from the cutoff on.
  draw: DrawDocument | undefined;
  signedIn: boolean;
  // Seconds after which the server advises to ask for the request again; 0 if it does not say.
  advised: number;
}

export const isLottery = (promotion: Promotion): boolean => promotion.eventType === "LOTTERY";

type Mine = Pick<State, "own" | "signedIn" | "advised">;

// The visitor's entry while the winners are being drawn: it does not change before the announcement.
let entry: Mine | undefined;

export async function readState(eventId: string, signal: AbortSignal): Promise<State> {
  const [promotion, read] = await Promise.all([readPromotion(eventId, signal), entry ?? readOwn(eventId, signal)]);
  const drawing = isLottery(promotion) && promotion.status === "Closed";
  const mine = entry && !drawing ? await readOwn(eventId, signal) : read;
  entry = drawing && mine.own?.status === "PROCESSING" ? mine : undefined;
  const drawn = isLottery(promotion) && (promotion.status === "Closed" || promotion.status === "Announced");
  return { promotion, draw: drawn ? await readDraw(eventId, signal) : undefined, ...mine };
}

const secondsOf = (answer: Response): number => Math.max(0, Number(answer.headers.get("Retry-After")) || 0);

async function readOwn(eventId: string, signal: AbortSignal): Promise<Mine> {
  let advised = 0;
  if (!hasSession()) return { own: undefined, signedIn: false, advised };
  try {
    const answered = (answer: Response) => (advised = secondsOf(answer));
    const own = await call<EventRequest>("GET", `${promotionPath(eventId)}/me`, { signal, answered });
    if (own.receipt) keepReceipt(eventId, own.requestId, own.receipt);
    return { own, signedIn: true, advised };
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure;
    // An ended session: the promotion is still shown, with a link to sign in.
    if (failure.status === 401 || failure.status === 404) return { own: undefined, signedIn: failure.status === 404, advised };
    throw failure;
  }
}

/** The draw as published. The page shows the promotion without it too, if it cannot be read. */
async function readDraw(eventId: string, signal: AbortSignal): Promise<DrawDocument | undefined> {
  try {
    const asked = Date.now();
    const draw = await call<DrawDocument>("GET", `/draws/${encodeURIComponent(eventId)}`, { signal });
    keepCopy(draw, eventId, Date.now() - asked);
    return draw;
  } catch (failure) {
    if (failure instanceof Problem) return undefined;
    throw failure;
  }
}

/**
 * Seconds until the state is read again: at the opening, the end and the announcement, at an own time
 * after them, since everybody waits for them; and while the request is pending, as the server advises or
 * more and more seldom. A promotion that is sold out changes no more.
 */
export function untilChange(state: State): number | undefined {
  const { own, promotion } = state;
  const now = serverNow();
  const until = (time: string, over = unknownCrowd): number => untilTurn(Date.parse(time) - now, over);
  const over = drawSpread(state.draw);
  const waits: number[] = [];
  if (promotion.status === "Scheduled") waits.push(until(promotion.opensAt, Math.max(unknownCrowd, applySpread(promotion))));
  if (promotion.status === "Open" && !isSoldOut(promotion)) waits.push(until(promotion.closesAt), promotion.paused ? 10 : 120);
  if (promotion.status === "Closed" && isLottery(promotion)) {
    const due = Date.parse(promotion.announcedAt ?? "") - now;
    // Meanwhile the draw goes on, which is the same for everybody.
    waits.push(untilTurn(due, over), Math.max(15, 5 * over));
  }
  if (own?.uiResult === "PENDING" && (!own.uiPhase || own.uiPhase === "ANNOUNCED")) {
    waits.push(state.advised || Math.min(30, Math.max(1, (now - own.requestedAt) / 5000)));
  }
  return waits.length > 0 ? Math.min(300, ...waits) : undefined;
}

/** Seconds over which the applications of all are spread after the opening. */
export const applySpread = (promotion: Promotion): number => (promotion.spreadMs ?? 0) / 1000;

// How often an application is sent at least whose response is lost, also after the promotion has closed.
const tries = 4;
// The longest wait for the own time without asking, in seconds: it moves with what is expected.
const longestWait = 600;

const storedKey = (eventId: string): string => `urr-apply-${eventId}`;

export interface Application {
  applied: Applied;
  advised: number;
}

/**
 * Applies once, at the visitor's own time, and until the promotion closes again after failures that may
 * be temporary; `waits` is told each of both. The key is kept until the response arrives, also across a
 * reload: then the server knows a repeated call from a second application.
 */
export async function apply({ eventId, closesAt }: Promotion, waits: (failure: Problem) => void): Promise<Application> {
  const key = readStored(sessionStorage, storedKey(eventId)) || uuid();
  writeStored(sessionStorage, storedKey(eventId), key);
  for (let failures = 1; ; failures++) {
    let advised = 0;
    try {
      const applied = await call<Applied>("POST", `${promotionPath(eventId)}/requests`, {
        body: {},
        headers: { "Idempotency-Key": key },
        answered: (answer) => (advised = secondsOf(answer)),
      });
      writeStored(sessionStorage, storedKey(eventId), "");
      if (applied.receipt) keepReceipt(eventId, applied.requestId, applied.receipt);
      return { applied, advised };
    } catch (failure) {
      if (!(failure instanceof Problem)) throw failure;
      if (!failure.temporary) writeStored(sessionStorage, storedKey(eventId), "");
      if (!failure.temporary || (failures >= tries && serverNow() > Date.parse(closesAt))) throw failure;
      waits(failure);
      await clock.wait(pauseAfter(failure, failures, Date.parse(closesAt)));
      if (failure.body.asksAt) failures = 0; // asking early is no failure
    }
  }
}

/**
 * Seconds until the application is sent again: at the visitor's own time, or else after a pause that grows
 * with the failures, and shrinks towards the end at `closes`.
 */
function pauseAfter({ body: { asksAt }, retryAfter }: Problem, failures: number, closes: number): number {
  const until = (time: number): number => (time - serverNow()) / 1000;
  if (asksAt) return Math.min(longestWait, Math.max(0.5, until(Number(asksAt))));
  return Math.min(backoff(failures, retryAfter), Math.max(retryAfter, 1 + Math.random(), until(closes) / 2));
}

/** Takes the request back; repeated after a lost response it is gone already. */
export const withdraw = (requestId: string): Promise<void> => call<void>("DELETE", `/requests/${requestId}`);

/** The request that a response describes, until it is read in full. */
export function requestOf({ eventId, eventType }: Promotion, { duplicate: _, ...request }: Applied): EventRequest {
  return { ...request, eventId, eventType, requestedAt: serverNow() };
}
