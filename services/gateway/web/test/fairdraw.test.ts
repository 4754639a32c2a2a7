// The verdicts of this verifier are those of urr.guru/pkg/fairdraw, whose tests write the vectors.

import { deepEqual, equal, rejects } from "node:assert/strict";
import { test } from "node:test";
import vectors from "../../../../pkg/fairdraw/testdata/vectors.json";
import networks from "../../../../pkg/fairdraw/beacon/testdata/drand.json";
import { verifyDraw, verifyReceipt, type DrawDocument, type Options } from "../src/lib/fairdraw";
import { concat, hash, hex, unbase64url, uuidText } from "../src/lib/fairdraw/bytes";
import { firstAt, isChain, isSigned, timeOf, valueOf } from "../src/lib/fairdraw/chain";
import { networkOf } from "../src/lib/fairdraw/rounds";
import { canonical } from "../src/lib/fairdraw/canonical";
import { isIncluded } from "../src/lib/fairdraw/proof";

interface Vector {
  document: Record<string, unknown>;
  entries: string;
  receipts: string[];
}

interface Case {
  name: string;
  base: "draw" | "shuffle";
  algorithm?: string;
  changes?: Record<string, unknown>;
  entries?: string;
  receipts?: string[];
  earlier?: DrawDocument[];
  now?: number;
  fault?: string;
  report?: Record<string, unknown> & { receipts: unknown[] };
}

const bytes = (base64: string) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

async function* chunksOf(entries: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < entries.length; at += size) yield entries.subarray(at, at + size);
}

for (const c of vectors.cases as unknown as Case[]) {
  test(`${c.base}: ${c.name}`, async () => {
    const base = vectors[c.base] as unknown as Vector;
    const document = { ...base.document, ...c.changes } as unknown as DrawDocument;
    const options: Options = {
      algorithm: c.algorithm ?? (c.base === "draw" ? "urr/draw/1" : "urr/shuffle/1"),
      receipts: c.receipts ?? base.receipts,
      earlier: c.earlier ?? [],
    };
    if (c.now) options.now = c.now;
    const entries = bytes(c.entries ?? base.entries);
    const verdict = await verifyDraw(document, entries, options);
    for (const size of [16, 112]) deepEqual(await verifyDraw(document, chunksOf(entries, size), options), verdict);
    if (!verdict.ok) {
      equal(verdict.code, c.fault, verdict.detail);
      return;
    }
    equal(undefined, c.fault, "accepted");
    const { complete, valueKnown, seedWithheld, winners, rootSeenAt } = verdict.report;
    const receipts = verdict.report.receipts.map(({ requestId, outcome, rank, reason }) => ({
      requestId,
      outcome,
      rank,
      reason,
    }));
    deepEqual({ complete, valueKnown, seedWithheld, winners, rootSeenAt, receipts }, c.report);
  });
}

for (const { name, info, rounds } of networks) {
  test(`rounds of ${name}`, () => {
    const chain = {
      scheme: info.schemeID,
      chainHash: info.hash,
      publicKey: info.public_key,
      genesis: info.genesis_time,
      periodSeconds: info.period,
      groupHash: info.groupHash,
      beaconId: info.metadata.beaconID,
      delaySeconds: 600,
    };
    equal(isChain(chain), true);
    equal(networkOf(chain), name === "quicknet" ? "drand quicknet" : "");
    equal(networkOf({ ...chain, genesis: chain.genesis + 1 }), "");
    for (const r of rounds) {
      equal(isSigned(chain, r), true);
      equal(hex(valueOf(r)), r.randomness);
      equal(isSigned(chain, { ...r, round: r.round + 1 }), false);
      const infinity = `c0${"0".repeat(r.signature.length - 2)}`;
      for (const signature of ["", infinity, r.signature.toUpperCase(), r.signature.slice(2), `1${r.signature.slice(1)}`]) {
        equal(isSigned(chain, { ...r, signature }), false, signature);
      }
      equal(firstAt(chain, timeOf(chain, r.round)), r.round);
      equal(firstAt(chain, timeOf(chain, r.round) + 1), r.round + 1);
    }
    equal(isChain({ ...chain, publicKey: `c0${"0".repeat(info.public_key.length - 2)}` }), false);
    equal(isChain({ ...chain, publicKey: "a".repeat(info.public_key.length) }), false);
    equal(isChain({ ...chain, scheme: "pedersen-bls-chained" }), false);
    equal(isChain({ ...chain, scheme: "toString" }), false);
    equal(isChain({ ...chain, genesis: chain.genesis + 30 * 24 * 3600 }), false, "known values would decide");
    equal(isChain({ ...chain, periodSeconds: chain.periodSeconds + 1 }), false);
    equal(isChain({ ...chain, groupHash: "0".repeat(64) }), false);
    equal(isChain({ ...chain, beaconId: "default" }), false);
  });
}

test("progress reaches the end", async () => {
  const base = vectors.draw as unknown as Vector;
  let last = 0;
  const progress = (done: number) => (last = done);
  const verdict = await verifyDraw(base.document as unknown as DrawDocument, bytes(base.entries), { progress });
  equal(verdict.ok, true);
  equal(last, 1);
});

test("a copy of an unsure time accuses nobody, and counts otherwise", async () => {
  let accused = 0;
  for (const c of vectors.cases as unknown as Case[]) {
    if (c.base !== "draw" || !c.earlier) continue;
    const base = vectors.draw as unknown as Vector;
    const document = { ...base.document, ...c.changes } as unknown as DrawDocument;
    const options: Options = { receipts: c.receipts ?? base.receipts, earlier: c.earlier.map((copy) => ({ ...copy, unsure: true })) };
    if (c.now) options.now = c.now;
    const verdict = await verifyDraw(document, bytes(c.entries ?? base.entries), options);
    const code = verdict.ok ? undefined : verdict.code;
    const onlyMissing = c.fault === "ROOT_UNSEEN" || c.fault === "SEED_LATE";
    if (onlyMissing) accused++;
    equal(code, onlyMissing ? undefined : c.fault, c.name);
  }
  equal(accused > 1, true);
});

test("entries are not read before the root, and a failure to read them is no verdict", async () => {
  const base = vectors.draw as unknown as Vector;
  const away = async function* (): AsyncGenerator<Uint8Array> {
    yield bytes(base.entries).subarray(0, 32);
    throw new Error("away");
  };
  await rejects(verifyDraw(base.document as unknown as DrawDocument, away()), /away/);
  const { statement: _, winners: __, seed: ___, beacon: ____, ...open } = { ...base.document, phase: "OPEN" } as Record<string, unknown>;
  equal((await verifyDraw(open as unknown as DrawDocument, away())).ok, true);
});

test("canonical JSON sorts members", () => {
  equal(canonical({ b: 1, a: { d: "é\n", c: 2 } }), '{"a":{"c":2,"d":"é\\n"},"b":1}');
});

test("base64url has one spelling", () => {
  equal(hex(unbase64url("_-8") as Uint8Array), "ffef");
  for (const text of ["_-9", "_-8=", "/+8", "_-8\n", "A"]) equal(unbase64url(text), undefined, text);
});

const leafOf = (id: Uint8Array) => hash(concat(Uint8Array.of(0), id));
const nodeOf = (left: Uint8Array, right: Uint8Array) => hash(concat(Uint8Array.of(1), left, right));

/** The root of leaves and the proof of one, as RFC 9162 §2.1 defines them. */
function prove(leaves: Uint8Array[], index: number): { root: Uint8Array; path: Uint8Array[] } {
  if (leaves.length === 1) return { root: leaves[0] as Uint8Array, path: [] };
  const half = 2 ** Math.ceil(Math.log2(leaves.length) - 1);
  const left = prove(leaves.slice(0, half), Math.min(index, half - 1));
  const right = prove(leaves.slice(half), Math.max(0, index - half));
  const path = index < half ? [...left.path, right.root] : [...right.path, left.root];
  return { root: nodeOf(left.root, right.root), path };
}

test("inclusion proofs", () => {
  for (let count = 1; count <= 20; count++) {
    const ids = Array.from({ length: count }, (_, i) => new Uint8Array(16).fill(i + 1));
    for (let index = 0; index < count; index++) {
      const { root, path } = prove(ids.map(leafOf), index);
      const proof = { index, count, path: path.map(hex) };
      const id = ids[index] as Uint8Array;
      equal(isIncluded(id, proof, hex(root), count), true, `${index} of ${count}`);
      equal(isIncluded(new Uint8Array(16), proof, hex(root), count), false);
      equal(isIncluded(id, proof, hex(root), count + 1), false);
      equal(isIncluded(id, { ...proof, path: [...proof.path, hex(root)] }, hex(root), count), false);
      if (count > 1) equal(isIncluded(id, { ...proof, index: (index + 1) % count }, hex(root), count), false);
    }
  }
});

test("receipts one by one", async () => {
  const base = vectors.draw as unknown as Vector;
  const document = base.document as unknown as DrawDocument;
  const all = bytes(base.entries);
  const ids = Array.from({ length: all.length / 16 }, (_, i) => all.subarray(16 * i, 16 * i + 16));
  const outcomes = ["ENTERED", "ENTERED", "EXCLUDED"];
  for (const [i, receipt] of base.receipts.entries()) {
    const full = await verifyDraw(document, all, { receipts: [receipt] });
    const requestId = full.ok ? full.report.receipts[0]?.requestId : "";
    const index = ids.findIndex((id) => uuidText(id) === requestId);
    const proof = index < 0 ? undefined : { index, count: ids.length, path: prove(ids.map(leafOf), index).path.map(hex) };
    const verdict = await verifyReceipt(document, proof, { receipts: [receipt] });
    equal(verdict.ok && verdict.report.receipts[0]?.outcome, outcomes[i]);
    if (!proof) continue;
    const wrong = await verifyReceipt(document, { ...proof, index: index ^ 1 }, { receipts: [receipt] });
    equal(!wrong.ok && wrong.code, "PROOF_WRONG");
    const missing = await verifyReceipt(document, undefined, { receipts: [receipt] });
    equal(!missing.ok && missing.code, "RECEIPT_NOT_INCLUDED");
  }
});
