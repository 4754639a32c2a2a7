// Whether one request takes part, without the file of all entries: by its receipt and an inclusion
// proof (RFC 9162 §2.1.3).

import { compare, concat, hash, isHex, unhex } from "./bytes";
import type { InclusionProof } from "./types";

/** Whether the proof leads from an entry to the root of a list of `count` entries. */
export function isIncluded(id: Uint8Array, proof: InclusionProof, root: string, count: number): boolean {
  let position = proof.index;
  let last = count - 1;
  if (proof.count !== count || !Number.isSafeInteger(position) || position < 0 || position > last) return false;
  let node = hash(concat(Uint8Array.of(0), id));
  for (const sibling of proof.path) {
    if (last === 0 || !isHex(sibling, 32)) return false;
    const beside = unhex(sibling);
    if (position % 2 === 1 || position === last) {
      node = hash(concat(Uint8Array.of(1), beside, node));
      // A node without a right neighbour moves up alone.
      while (position % 2 === 0 && position !== 0) [position, last] = [position / 2, Math.floor(last / 2)];
    } else {
      node = hash(concat(Uint8Array.of(1), node, beside));
    }
    [position, last] = [Math.floor(position / 2), Math.floor(last / 2)];
  }
  return last === 0 && compare(node, unhex(root)) === 0;
}
