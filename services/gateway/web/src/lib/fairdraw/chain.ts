// Rounds of a drand beacon.

import { bls12_381 } from "@noble/curves/bls12-381.js";
import { concat, hash, hex, isHex, unhex, utf8 } from "./bytes";
import type { Beacon, Round } from "./types";

export { firstAt, timeOf } from "./rounds";

const schemes = {
  // Signatures in G1, keys in G2; and the reverse.
  "bls-unchained-g1-rfc9380": { signature: 48, key: 96, bls: bls12_381.shortSignatures, keys: bls12_381.G2.Point },
  "pedersen-bls-unchained": { signature: 96, key: 48, bls: bls12_381.longSignatures, keys: bls12_381.G1.Point },
};

const schemeOf = (name: string) =>
  Object.hasOwn(schemes, name) ? schemes[name as keyof typeof schemes] : undefined;

const maxGenesis = 253402300799;
const maxPeriod = 86400;

export function isChain(c: Beacon): boolean {
  const scheme = schemeOf(c.scheme);
  if (!scheme || !isHex(c.chainHash, 32) || !isHex(c.publicKey, scheme.key)) return false;
  if (!isHex(c.groupHash, 32) || !/^[A-Za-z0-9_-]{0,64}$/.test(c.beaconId)) return false;
  if (c.genesis < 0 || c.genesis > maxGenesis || c.periodSeconds < 1 || c.periodSeconds > maxPeriod) return false;
  if (c.chainHash !== chainHash(c)) return false;
  try {
    // Decoding checks that the point is on the curve and in the group of prime order.
    return !scheme.keys.fromBytes(unhex(c.publicKey)).is0();
  } catch {
    return false;
  }
}

/** The hash of a chain as drand computes it, in hex: it covers the key and the times of the rounds. */
function chainHash(c: Beacon): string {
  const numbers = new DataView(new ArrayBuffer(12));
  numbers.setUint32(0, c.periodSeconds);
  numbers.setBigUint64(4, BigInt(c.genesis));
  const id = c.beaconId === "default" ? "" : c.beaconId;
  return hex(hash(concat(new Uint8Array(numbers.buffer), unhex(c.publicKey), unhex(c.groupHash), utf8(id))));
}

/** Whether the chain's key signed the round. */
export function isSigned(c: Beacon, r: Round): boolean {
  const scheme = schemeOf(c.scheme);
  if (!scheme || !Number.isSafeInteger(r.round) || r.round < 1 || !isHex(r.signature, scheme.signature)) return false;
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, BigInt(r.round));
  const signature = unhex(r.signature);
  // A compressed point other than that at infinity, whose signature every key has.
  if (((signature[0] as number) & 0xc0) !== 0x80) return false;
  try {
    return scheme.bls.verify(signature, scheme.bls.hash(hash(number)) as never, unhex(c.publicKey));
  } catch {
    return false; // not a point
  }
}

/** The value of a round: the hash of its signature. */
export const valueOf = (r: Round): Uint8Array => hash(concat(unhex(r.signature)));
