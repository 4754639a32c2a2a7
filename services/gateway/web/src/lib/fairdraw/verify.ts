// The checks of urr.guru/pkg/fairdraw, in the same order and with the same codes; the vectors of that
// package are its tests.

import { compare, concat, hash, hex, isHex, unhex, utf8, uuidBytes, uuidText } from "./bytes";
import { isSigned, timeOf, valueOf } from "./chain";
import { Survey, Tree, type Tick } from "./entries";
import { isIncluded } from "./proof";
import { openReceipt } from "./receipt";
import {
  algorithmShuffle,
  copyGrace,
  dueAt,
  isStatementSigned,
  parseStatement,
  parseTerms,
  resultGrace,
  rootLead,
  roundFor,
  zeroSeedRound,
} from "./terms";
import type { DrawDocument, InclusionProof, Options, Report, SignedStatement, Statement, Terms } from "./types";

/** The first thing that is wrong. */
export class Fault extends Error {
  constructor(
    readonly code: string,
    readonly detail: string,
  ) {
    super(`${code}: ${detail}`);
  }
}

const zeroSeed = "0".repeat(64);

const isPublished = (d: DrawDocument) => (d.winners?.length ?? 0) > 0 || Boolean(d.orderHash);

/** The entries: the published file, or its chunks one after another. */
export type Entries = Uint8Array | AsyncIterable<Uint8Array>;

/** Verifies a document; throws the first Fault. */
export async function verify(d: DrawDocument, entries: Entries, options: Options): Promise<Report> {
  const report = readSigned(d, options);
  const { statement, terms } = report;
  if (!statement) {
    checkVoid(d, terms, undefined);
    checkOverdue(d, report, options);
    return report;
  }
  checkRound(terms, statement);
  checkUnseen(terms, statement, options);
  const key = publishedKey(d, terms, statement);
  const shuffled = terms.algorithm === algorithmShuffle;
  const tick = ticker((key && shuffled ? 2 : 1) * statement.count, options.progress);
  const survey = surveyOf(d, report, key);
  for await (const chunk of entries instanceof Uint8Array ? [entries] : entries) await survey.add(chunk, tick);
  checkEntries(statement, survey);
  const has = (requestId: string) => survey.has(requestId);
  checkReceipts(report, has, checkExcluded(d, statement, has));
  checkVoid(d, terms, statement);
  const value = checkValue(d, terms, statement);
  report.valueKnown = value !== undefined;
  const seed = checkSeed(d, terms, report);
  if (!seed || !value || !key) {
    if (["DRAWN", "SETTLED"].includes(d.phase)) throw new Fault("RESULT_MISSING", `phase ${d.phase} has no result`);
    checkOverdue(d, report, options);
    return report;
  }
  checkSeedLate(terms, statement, report, options);
  report.complete = true;
  if (shuffled) checkOrder(d, await survey.orderHash(key, tick));
  else checkWinners(d, report, survey);
  rankReceipts(report, survey);
  return report;
}

/**
 * The key of the published result, before it is known whether its seed and value are genuine: if they are
 * not, a check before that of the result says so.
 */
function publishedKey(d: DrawDocument, terms: Terms, s: Statement): Uint8Array | undefined {
  if (!isHex(d.seed, 32) || Boolean(d.beacon) !== Boolean(terms.beacon)) return undefined;
  const value = d.beacon ? valueOf({ ...d.beacon, signature: String(d.beacon.signature) }) : new Uint8Array();
  return hash(concat(unhex(d.seed), unhex(d.commitmentHash), unhex(s.root), value));
}

function surveyOf(d: DrawDocument, report: Report, key: Uint8Array | undefined): Survey {
  const excluded = (d.excluded ?? []).map((e) => uuidBytes(e.requestId)).filter((id) => id !== undefined);
  const receipts = report.receipts.map((r) => uuidBytes(r.requestId) as Uint8Array);
  return new Survey(excluded, receipts, key, report.terms.algorithm === algorithmShuffle ? undefined : report.terms.winners);
}

/** What is signed: the terms, the receipts and the statement. */
function readSigned(d: DrawDocument, options: Options): Report {
  const terms = readTerms(d, options);
  const report: Report = {
    terms,
    rootSeenAt: 0,
    valueKnown: false,
    complete: false,
    seedWithheld: false,
    winners: 0,
    receipts: [],
  };
  checkEarlierTerms(d, options);
  readReceipts(d, terms, report, options.receipts ?? []);
  const statement = currentStatement(d, terms);
  if (statement) report.statement = statement;
  checkEarlierStatements(d, terms, report, options.earlier ?? []);
  return report;
}

/**
 * Verifies whether the request of the only receipt takes part, by its inclusion proof instead of the
 * file of the entries. Without a proof it must be excluded with a reason, or late.
 */
export function verifyReceipt(d: DrawDocument, proof: InclusionProof | undefined, options: Options): Report {
  const report = readSigned(d, options);
  const { receipts, statement, terms } = report;
  if (!statement) return report;
  checkRound(terms, statement);
  checkUnseen(terms, statement, options);
  const unknown = () => false;
  const reasons = checkExcluded(d, statement, unknown);
  const [receipt] = receipts;
  if (!proof || !receipt) {
    checkReceipts(report, unknown, reasons);
  } else if (isIncluded(uuidBytes(receipt.requestId) as Uint8Array, proof, statement.root, statement.count)) {
    receipt.outcome = "ENTERED";
  } else {
    throw new Fault("PROOF_WRONG", `the proof of request ${receipt.requestId} does not lead to the signed root`);
  }
  return report;
}

function readTerms(d: DrawDocument, options: Options): Terms {
  const terms = parseTerms(d.commitment);
  if (!terms) throw new Fault("COMMITMENT_INVALID", "the commitment is not the canonical text of valid terms");
  if (options.algorithm && terms.algorithm !== options.algorithm) {
    throw new Fault("ALGORITHM_OTHER", `the algorithm is ${terms.algorithm} instead of ${options.algorithm}`);
  }
  const own = hex(hash(utf8(d.commitment)));
  if (d.commitmentHash !== own) {
    throw new Fault("COMMITMENT_CHANGED", `the commitment has the hash ${own}, but ${d.commitmentHash} was published`);
  }
  if (d.eventId !== terms.eventId) {
    throw new Fault("COMMITMENT_CHANGED", `the commitment is that of event ${terms.eventId}, not of ${d.eventId}`);
  }
  return terms;
}

function checkEarlierTerms(d: DrawDocument, options: Options): void {
  for (const e of options.earlier ?? []) {
    if (e.commitment !== d.commitment) throw new Fault("COMMITMENT_CHANGED", "the earlier copy has other terms");
  }
}

function readReceipts(d: DrawDocument, terms: Terms, report: Report, receipts: string[]): void {
  for (const text of receipts) {
    const r = openReceipt(terms.receiptKey, text);
    if (!r) throw new Fault("RECEIPT_FORGED", "a receipt is not signed by the key of the commitment");
    if (r.eventId !== terms.eventId || r.commitment !== d.commitmentHash) {
      throw new Fault("RECEIPT_OTHER", `the receipt of request ${r.requestId} was signed for other terms`);
    }
    report.receipts.push({ requestId: r.requestId, at: r.at, outcome: "PENDING", rank: 0, reason: "" });
  }
}

function currentStatement(d: DrawDocument, terms: Terms): Statement | undefined {
  if (d.statement) return readStatement(d, terms, d.statement);
  if (["ROOT", "DRAWN", "SETTLED"].includes(d.phase)) {
    throw new Fault("STATEMENT_MISSING", `phase ${d.phase} has no statement`);
  }
  if (d.beacon || d.seed || isPublished(d)) {
    throw new Fault("STATEMENT_MISSING", "there is a result or a part of it, but no statement");
  }
  return undefined;
}

function readStatement(d: DrawDocument, terms: Terms, signed: SignedStatement): Statement {
  const s = parseStatement(signed.statement);
  if (!s) throw new Fault("STATEMENT_INVALID", "the statement is not the canonical text of one");
  if (!isStatementSigned(terms, signed)) {
    throw new Fault("STATEMENT_FORGED", "the statement is not signed by the key of the commitment");
  }
  if (s.commitment !== d.commitmentHash) {
    throw new Fault("COMMITMENT_CHANGED", `the statement was signed for the commitment ${s.commitment}`);
  }
  return s;
}

function checkEarlierStatements(d: DrawDocument, terms: Terms, report: Report, earlier: DrawDocument[]): void {
  for (const e of earlier) {
    if (!e.statement) continue;
    const old = readStatement(d, terms, e.statement);
    const now = report.statement;
    if (!now) throw new Fault("STATEMENT_MISSING", "the earlier copy has a statement, this document has none");
    if (old.root !== now.root) throw new Fault("ROOT_SECOND", "two roots are signed for this draw");
    if (e.statement.statement !== d.statement?.statement) {
      throw new Fault("STATEMENT_SECOND", "two different statements are signed for this draw");
    }
    const at = e.savedAt ?? 0;
    if (at <= 0 || !terms.beacon || at >= timeOf(terms.beacon, roundFor(terms, now.at).round)) continue;
    if (report.rootSeenAt === 0 || at < report.rootSeenAt) report.rootSeenAt = at;
  }
}

function checkRound(terms: Terms, s: Statement): void {
  if (s.at < terms.cutoffAt) throw new Fault("ROOT_EARLY", "the root is of a time before the cutoff");
  const { round, missed } = roundFor(terms, s.at);
  if (s.round < round && terms.beacon && timeOf(terms.beacon, s.round) < s.at + rootLead) {
    throw new Fault("ROOT_LATE", `the root came less than a minute before round ${s.round}`);
  }
  if (s.round !== round) {
    throw new Fault("ROUND_WRONG", `the statement names round ${s.round}, but round ${round} follows from the terms`);
  }
  if (s.missedRounds !== missed) {
    throw new Fault("ROUND_WRONG", `the statement names ${s.missedRounds} missed rounds, but there are ${missed}`);
  }
}

const savedAt = (d: DrawDocument): number => (d.savedAt && d.savedAt > 0 ? d.savedAt : 0);

/** Looks for a copy without a statement from a time when the statement had to be public. */
function checkUnseen(terms: Terms, s: Statement, options: Options): void {
  if (!terms.beacon) return;
  const late = timeOf(terms.beacon, s.round) - rootLead + copyGrace;
  if ((options.earlier ?? []).some((e) => !e.statement && !e.unsure && savedAt(e) >= late)) {
    throw new Fault("ROOT_UNSEEN", "a copy from less than a minute before the round, or later, has no root");
  }
}

/** Looks for a copy without a seed from a time when another round had decided. */
function checkSeedLate(terms: Terms, s: Statement, report: Report, options: Options): void {
  if (!terms.beacon || report.seedWithheld) return;
  const late = timeOf(terms.beacon, zeroSeedRound(terms, terms.beacon, s.round)) + copyGrace;
  const hidden = (e: DrawDocument) => !e.seed && e.phase !== "DRAWN" && e.phase !== "SETTLED";
  if ((options.earlier ?? []).some((e) => hidden(e) && !e.unsure && savedAt(e) >= late)) {
    throw new Fault("SEED_LATE", "a copy from after the deadline of the seed has none");
  }
}

function checkOverdue(d: DrawDocument, { terms, statement }: Report, options: Options): void {
  const now = savedAt(d) || options.now;
  if (d.phase === "VOID" || !now) return;
  if (now >= dueAt(terms, statement?.round ?? terms.round) + resultGrace) {
    throw new Fault("RESULT_OVERDUE", "the announcement has passed without a result");
  }
}

function checkEntries(s: Statement, entries: Survey): void {
  if (!entries.isSorted) throw new Fault("ENTRIES_UNSORTED", "an entry is malformed, twice or out of order");
  const { count } = entries;
  if (count !== s.count) {
    throw new Fault(
      count > s.count ? "ENTRY_ADDED" : "ENTRY_REMOVED",
      `there are ${count} entries, but ${s.count} were signed`,
    );
  }
  const root = hex(entries.root());
  if (root !== s.root) {
    throw new Fault("ENTRIES_CHANGED", `the entries have the root ${root}, but ${s.root} was signed`);
  }
}

/** Checks the exclusions and returns their reasons by request id. */
function checkExcluded(d: DrawDocument, s: Statement, isEntry: (requestId: string) => boolean): Map<string, string> {
  const changed = (detail: string) => new Fault("EXCLUDED_CHANGED", detail);
  const tree = new Tree();
  const reasons = new Map<string, string>();
  let last: Uint8Array | undefined;
  for (const e of d.excluded ?? []) {
    const id = uuidBytes(e.requestId);
    if (!id || (last && compare(last, id) >= 0)) throw changed("the exclusions are malformed or out of order");
    if (isEntry(e.requestId)) throw changed(`request ${e.requestId} is excluded and an entry`);
    tree.add(concat(id, utf8(e.reason)));
    reasons.set(e.requestId, e.reason);
    last = id;
  }
  if (reasons.size !== s.excludedCount || hex(tree.root()) !== s.excludedRoot) {
    throw changed("the exclusions are not those that were signed");
  }
  return reasons;
}

function checkReceipts(report: Report, isEntry: (requestId: string) => boolean, excluded: Map<string, string>): void {
  for (const r of report.receipts) {
    const reason = excluded.get(r.requestId);
    if (isEntry(r.requestId)) {
      r.outcome = "ENTERED";
    } else if (reason !== undefined) {
      r.outcome = "EXCLUDED";
      r.reason = reason;
    } else if (r.at >= report.terms.cutoffAt) {
      r.outcome = "LATE";
    } else {
      throw new Fault(
        "RECEIPT_NOT_INCLUDED",
        `request ${r.requestId} has a receipt, but is neither an entry nor excluded`,
      );
    }
  }
}

function checkVoid(d: DrawDocument, terms: Terms, s: Statement | undefined): void {
  if (d.phase !== "VOID") return;
  if (d.seed || isPublished(d)) throw new Fault("VOID_LATE", "the draw was cancelled, but has a result");
  if (!terms.beacon) return;
  const at = d.voidedAt ?? 0;
  if (at <= 0 || at >= timeOf(terms.beacon, s?.round ?? terms.round)) {
    throw new Fault("VOID_LATE", "the draw was cancelled when its round could be known");
  }
}

/** The value of the round: empty without a beacon, undefined while it is not published. */
function checkValue(d: DrawDocument, terms: Terms, s: Statement): Uint8Array | undefined {
  const b = terms.beacon;
  if (!b) {
    if (d.beacon) throw new Fault("ROUND_WRONG", "there is a beacon's value, but the terms name no beacon");
    return new Uint8Array();
  }
  if (!d.beacon) {
    if (d.seed || isPublished(d)) throw new Fault("VALUE_MISSING", "there is a result, but no value of the beacon");
    return undefined;
  }
  const zero = zeroSeedRound(terms, b, s.round);
  const want = d.seed === zeroSeed || (!d.seed && d.beacon.round === zero) ? zero : s.round;
  if (d.beacon.round !== want) {
    throw new Fault("ROUND_WRONG", `the value is that of round ${d.beacon.round}, but round ${want} decides`);
  }
  if (!isSigned(b, d.beacon)) {
    throw new Fault("VALUE_FORGED", `the beacon did not sign this value for round ${d.beacon.round}`);
  }
  const value = valueOf(d.beacon);
  if (hex(value) !== d.beacon.randomness) {
    throw new Fault("VALUE_CHANGED", "the value is not the hash of the beacon's signature");
  }
  return value;
}

function checkSeed(d: DrawDocument, terms: Terms, report: Report): Uint8Array | undefined {
  if (!d.seed) {
    if (isPublished(d)) throw new Fault("SEED_MISSING", "there is a result, but no seed");
    return undefined;
  }
  if (!isHex(d.seed, 32)) throw new Fault("SEED_CHANGED", "the seed is not 32 bytes in lower-case hex");
  const seed = unhex(d.seed);
  report.seedWithheld = d.seed === zeroSeed && terms.beacon !== undefined;
  if (!report.seedWithheld && hex(hash(seed)) !== terms.seedHash) {
    throw new Fault("SEED_CHANGED", "the seed does not have the committed hash");
  }
  return seed;
}

function checkOrder(d: DrawDocument, order: Uint8Array): void {
  if (hex(order) !== d.orderHash) throw new Fault("ORDER_CHANGED", "the order has another hash");
}

function checkWinners(d: DrawDocument, report: Report, entries: Survey): void {
  const winners = entries.winners();
  const published = d.winners ?? [];
  report.winners = winners.length;
  if (published.length !== report.winners) {
    throw new Fault("WINNERS_NUMBER", `there are ${published.length} winners instead of ${report.winners}`);
  }
  published.forEach((winner, i) => {
    const id = uuidText(winners[i] as Uint8Array);
    if (winner !== id) throw new Fault("WINNER_CHANGED", `rank ${i + 1} is ${winner}, but should be ${id}`);
  });
}

function rankReceipts(report: Report, entries: Survey): void {
  report.receipts.forEach((r, i) => {
    if (r.outcome !== "ENTERED") return;
    r.rank = entries.rank(i);
    if (report.terms.algorithm === algorithmShuffle) r.outcome = "PLACED";
    else r.outcome = r.rank <= report.terms.winners ? "WON" : "LOST";
  });
}

/** Counts hashed entries, and returns to the page's event loop. */
function ticker(total: number, progress: ((done: number) => void) | undefined): Tick {
  let done = 0;
  return async (count) => {
    done += count;
    progress?.(Math.min(1, done / total));
    await new Promise((resolve) => setTimeout(resolve));
  };
}
