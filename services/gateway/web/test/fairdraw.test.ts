// The verdicts of this verifier are those of urr.guru/pkg/fairdraw, whose tests write the vectors.

import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import vectors from "../../../../pkg/fairdraw/testdata/vectors.json";
import networks from "../../../../pkg/fairdraw/beacon/testdata/drand.json";
import { verifyDraw, type DrawDocument, type Options } from "../src/lib/fairdraw";
import { hex, unbase64url } from "../src/lib/fairdraw/bytes";
import { firstAt, isChain, isSigned, timeOf, valueOf } from "../src/lib/fairdraw/chain";
import { canonical } from "../src/lib/fairdraw/canonical";

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
  fault?: string;
  report?: Record<string, unknown> & { receipts: unknown[] };
}

const bytes = (base64: string) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

for (const c of vectors.cases as unknown as Case[]) {
  test(`${c.base}: ${c.name}`, async () => {
    const base = vectors[c.base] as unknown as Vector;
    const document = { ...base.document, ...c.changes } as unknown as DrawDocument;
    const options: Options = {
      algorithm: c.algorithm ?? (c.base === "draw" ? "urr/draw/1" : "urr/shuffle/1"),
      receipts: c.receipts ?? base.receipts,
      earlier: c.earlier ?? [],
    };
    const verdict = await verifyDraw(document, bytes(c.entries ?? base.entries), options);
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
      delaySeconds: 600,
    };
    equal(isChain(chain), true);
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

test("canonical JSON sorts members", () => {
  equal(canonical({ b: 1, a: { d: "é\n", c: 2 } }), '{"a":{"c":2,"d":"é\\n"},"b":1}');
});

test("base64url has one spelling", () => {
  equal(hex(unbase64url("_-8") as Uint8Array), "ffef");
  for (const text of ["_-9", "_-8=", "/+8", "_-8\n", "A"]) equal(unbase64url(text), undefined, text);
});
