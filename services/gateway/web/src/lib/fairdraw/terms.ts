// The two signed texts: the commitment and the statement.

import { ed25519 } from "@noble/curves/ed25519.js";
import { concat, isHex, unhex, utf8 } from "./bytes";
import { hasForm, isInteger, isText, parseCanonical } from "./canonical";
import { firstAt, isChain, timeOf } from "./chain";
import type { Beacon, SignedStatement, Statement, Terms } from "./types";

export const algorithmDraw = "urr/draw/1";
export const algorithmShuffle = "urr/shuffle/1";

const maxDelay = 30 * 24 * 60 * 60; // s
export const rootLead = 60_000; // ms; how long before its round the root is public
const seedDeadline = 24 * 60 * 60 * 1000; // ms
export const resultGrace = 600_000; // ms
export const copyGrace = 15_000; // ms
const maxMillis = 253402300799999;
const maxWinners = 10_000_000;

const isHash = (value: unknown) => isHex(value, 32);

const beaconForm = {
  beaconId: isText,
  chainHash: isText,
  delaySeconds: isInteger,
  genesis: isInteger,
  groupHash: isText,
  periodSeconds: isInteger,
  publicKey: isText,
  scheme: isText,
};

const termsForm = {
  algorithm: isText,
  announcedAt: isInteger,
  beacon: (value: unknown) => hasForm(value, beaconForm),
  cutoffAt: isInteger,
  eventId: isText,
  round: isInteger,
  receiptKey: isHash,
  seedHash: isHash,
  seedKid: isText,
  statementKey: isHash,
  winners: isInteger,
};

const statementForm = {
  at: isInteger,
  commitment: isHash,
  count: isInteger,
  excludedCount: isInteger,
  excludedRoot: isHash,
  missedRounds: isInteger,
  root: isHash,
  round: isInteger,
};

/** The terms of a commitment's text; undefined when it is not the canonical text of valid ones. */
export function parseTerms(text: string): Terms | undefined {
  const terms = parseCanonical(text, termsForm, ["beacon"]) as Terms | undefined;
  return terms && areValid(terms) ? terms : undefined;
}

function areValid(t: Terms): boolean {
  const draw = t.algorithm === algorithmDraw;
  if (!draw && t.algorithm !== algorithmShuffle) return false;
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(t.eventId)) return false;
  if (draw ? t.winners < 1 || t.winners > maxWinners : t.winners !== 0) return false;
  if (t.cutoffAt < 1 || t.announcedAt > maxMillis || t.announcedAt < t.cutoffAt) return false;
  const kid = utf8(t.seedKid).length;
  if (isWeak(t.receiptKey) || isWeak(t.statementKey) || t.receiptKey === t.statementKey) return false;
  if (kid < 1 || kid > 32) return false;
  const b = t.beacon;
  if (!b) return t.round === 0;
  if (!isChain(b) || b.delaySeconds < b.periodSeconds || b.delaySeconds > maxDelay) return false;
  if (draw && t.announcedAt < t.cutoffAt + b.delaySeconds * 1000) return false;
  return t.round === nthRound(t, b, 1);
}

const smallOrder = [
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

/** Whether an Ed25519 key is a point of small order, or not in its canonical encoding. */
function isWeak(key: string): boolean {
  const last = (Number.parseInt(key.slice(62), 16) & 0x7f).toString(16).padStart(2, "0");
  const y = key.slice(0, 62) + last; // without the sign of x
  return smallOrder.includes(y) || /^(ed|ee|ef|f.)(ff){30}7f$/.test(y);
}

/** The first round n delays after the cutoff. */
const nthRound = (t: Terms, b: Beacon, n: number): number => firstAt(b, t.cutoffAt + n * b.delaySeconds * 1000);

/** The round that decides when the root is fixed at a time, in ms, and how many were missed before it. */
export function roundFor(t: Terms, at: number): { round: number; missed: number } {
  const b = t.beacon;
  if (!b) return { round: 0, missed: 0 };
  const known = at + rootLead;
  let missed = Math.max(0, Math.floor((known - t.cutoffAt) / (b.delaySeconds * 1000)) - 1);
  for (;;) {
    const round = nthRound(t, b, missed + 1);
    if (timeOf(b, round) >= known) return { round, missed };
    missed++;
  }
}

/** The round that decides when the seed was not revealed. */
export const zeroSeedRound = (t: Terms, b: Beacon, round: number): number =>
  firstAt(b, dueAt(t, round) + seedDeadline);

/** When the result is due, in ms. */
export const dueAt = (t: Terms, round: number): number =>
  t.beacon ? Math.max(t.announcedAt, timeOf(t.beacon, round)) : t.announcedAt;

/** The statement of a text; undefined when it is not the canonical text of one. */
export function parseStatement(text: string): Statement | undefined {
  const s = parseCanonical(text, statementForm) as Statement | undefined;
  if (!s || s.count < 0 || s.excludedCount < 0 || s.missedRounds < 0 || s.round < 0) return undefined;
  return s.at < 1 || s.at > maxMillis ? undefined : s;
}

export const isStatementSigned = (t: Terms, s: SignedStatement): boolean =>
  isHex(s.signature, 64) && isSignedBy(t.statementKey, "urr/draw-statement/1", utf8(s.statement), unhex(s.signature));

/** Whether an Ed25519 key signed bytes for a purpose. */
export function isSignedBy(key: string, purpose: string, bytes: Uint8Array, signature: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, concat(utf8(purpose), bytes), unhex(key), { zip215: false });
  } catch {
    return false; // the key is not a point
  }
}
