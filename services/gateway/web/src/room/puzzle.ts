// Finds a proof of work (pkg/proofofwork): a nonce with which the SHA-256 of "<challenge>.<nonce>"
// begins with so many zero bits. Hashing is synchronous: a call of WebCrypto takes longer than the
// hash.

import { sha256 } from "@noble/hashes/sha2.js";
import type { Puzzle } from "./proof";

// Hashes between two looks at the clock.
const lookEvery = 4096;
// More than anybody tries in the life of a challenge.
const nonceDigits = 10;
const zero = 48; // "0" in ASCII
const nine = 57;

function leadingZeros(digest: Uint8Array): number {
  let zeros = 0;
  for (const byte of digest) {
    // clz32 counts in 32 bits, of which a byte is the last eight.
    zeros += Math.clz32(byte) - 24;
    if (byte !== 0) break;
  }
  return zeros;
}

/** Counts in place: making a string of a number costs as much as a hash. */
function increment(decimal: Uint8Array): void {
  for (let i = decimal.length - 1; i >= 0; i--) {
    const digit = (decimal[i] as number) + 1;
    decimal[i] = digit > nine ? zero : digit;
    if (digit <= nine) return;
  }
}

/** Returns the proof, or undefined when the time is over. */
export function solve({ challenge, difficulty, ms }: Puzzle, now: () => number = Date.now): string | undefined {
  // The state after the challenge is computed once, and a nonce then costs one block.
  const prefix = sha256.create().update(new TextEncoder().encode(`${challenge}.`));
  const state = prefix.clone();
  const digest = new Uint8Array(sha256.outputLen);
  const nonce = new Uint8Array(nonceDigits).fill(zero);
  const end = now() + ms;
  for (let n = 0; n % lookEvery !== 0 || now() < end; n++) {
    prefix._cloneInto(state).update(nonce).digestInto(digest);
    if (leadingZeros(digest) >= difficulty) return `${challenge}.${new TextDecoder().decode(nonce)}`;
    increment(nonce);
  }
  return undefined;
}
