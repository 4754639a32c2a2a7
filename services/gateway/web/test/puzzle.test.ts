import { deepEqual, equal, ok } from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { solve } from "../src/room/puzzle";

test("a proof has the zero bits that are asked for", () => {
  for (const length of [1, 40, 55, 63, 64, 91, 200]) {
    for (const difficulty of [0, 1, 7, 8, 9, 12]) {
      const challenge = "c".repeat(length);
      const proof = solve({ challenge, difficulty, ms: 600_000 }) ?? "";
      ok(proof.startsWith(`${challenge}.`) && proof.length > length + 1);
      const digest = BigInt(`0x${createHash("sha256").update(proof).digest("hex")}`);
      equal(digest >> BigInt(256 - difficulty), 0n, `${proof} for ${difficulty} bits`);
    }
  }
});

test("the search ends with the challenge", () => {
  const times = [0, 10, 20, 30];
  equal(solve({ challenge: "c", difficulty: 256, ms: 25 }, () => times.shift() as number), undefined);
  deepEqual(times, []);
});
