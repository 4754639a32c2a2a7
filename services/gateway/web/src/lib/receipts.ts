// The receipts of the visitor's requests, and the copies of draws that this browser has seen. Both
// outlive the session: they prove what the operator signed.

import type { DrawCopy, DrawDocument } from "./fairdraw";
import { serverNow } from "./now";
import { readStored, writeStored } from "./store";

export interface StoredReceipt {
  requestId: string;
  receipt: string;
}

// Members of a household may share a browser; whoever floods the storage has its latest receipts.
const maxReceipts = 20;
const maxCopies = 12;
const maxSkew = 5000; // ms

const receiptsKey = (eventId: string): string => `urr-receipts-${eventId}`;
const copiesKey = (eventId: string): string => `urr-draw-copies-${eventId}`;

function readList<T>(key: string): T[] {
  try {
    const list: unknown = JSON.parse(readStored(localStorage, key) || "[]");
    return Array.isArray(list) ? (list as T[]) : [];
  } catch {
    return []; // changed by something else: nothing can be read from it
  }
}

export const readReceipts = (eventId: string): StoredReceipt[] => readList<StoredReceipt>(receiptsKey(eventId));

/** Keeps a receipt; the first one of a request stays. */
export function keepReceipt(eventId: string, requestId: string, receipt: string): void {
  const known = readReceipts(eventId);
  if (known.some((r) => r.requestId === requestId)) return;
  writeStored(localStorage, receiptsKey(eventId), JSON.stringify([...known, { requestId, receipt }].slice(-maxReceipts)));
}

/** Keeps the receipt of the latest lobby of a waiting room, which replaces that of an earlier one. */
export function keepLobbyReceipt(eventId: string, requestId: string, receipt: string): void {
  writeStored(localStorage, receiptsKey(`${eventId}/lobby`), JSON.stringify([{ requestId, receipt }]));
}

export const readCopies = (eventId: string): DrawCopy[] => readList<DrawCopy>(copiesKey(eventId));

/**
 * Keeps copies of what is signed in a draw, with the time: the first and the latest of each content. The
 * first shows when something was there, the latest when it was not there yet. No copy replaces one of
 * another content, since two that differ are proof of fraud. The time is that of the browser: the
 * server's is a claim of the operator. If the two differ, or the answer is old, the first copy is unsure:
 * it says what was there, and not what was missing, which would accuse the operator falsely. The latest is
 * not kept then.
 *
 * @param age of the answer since it was asked for, in ms: a page that was suspended goes on with an old one.
 */
export function keepCopy(document: DrawDocument, name = document.eventId, age = 0): DrawCopy[] {
  const { commitment, commitmentHash, eventId, phase, seed, statement } = document;
  const known = readCopies(name);
  const like = (c: DrawDocument) =>
    c.commitment === commitment && c.statement?.statement === statement?.statement && Boolean(c.seed) === Boolean(seed);
  const seen = known.filter(like);
  const unsure = Math.abs(Date.now() - serverNow()) > maxSkew || age > maxSkew;
  const copy: DrawCopy = { eventId, phase, commitment, commitmentHash, savedAt: Date.now() };
  if (statement) copy.statement = statement;
  if (seed) copy.seed = seed;
  if (unsure) copy.unsure = true;
  if (seen.length > 0 && unsure) return known;
  const others = seen.length > 1 ? known.filter((c) => c !== seen[1]) : known;
  if (others.length >= maxCopies) return known;
  const copies = [...others, copy];
  writeStored(localStorage, copiesKey(name), JSON.stringify(copies));
  return copies;
}

/** Whether two copies contradict each other: other terms, or another statement. */
export function differ(copies: DrawDocument[]): boolean {
  const statements = new Set(copies.flatMap((c) => (c.statement ? [c.statement.statement] : [])));
  return statements.size > 1 || new Set(copies.map((c) => c.commitment)).size > 1;
}
