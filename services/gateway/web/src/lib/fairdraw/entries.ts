// The file of the entries: its root and its order. A million entries take some seconds, in slices, so
// that the page stays alive.

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { compare, concat, hash } from "./bytes";

export const entrySize = 16;
const slice = 4096;

export type Tick = (count: number) => Promise<void>;

/** Calls `each` for 0 to count − 1 and lets the page breathe between slices. */
async function inSlices(count: number, tick: Tick, each: (i: number) => void): Promise<void> {
  for (let from = 0; from < count; from += slice) {
    const to = Math.min(from + slice, count);
    for (let i = from; i < to; i++) each(i);
    await tick(to - from);
  }
}

export const countOf = (entries: Uint8Array): number => entries.length / entrySize;

export const entryAt = (entries: Uint8Array, i: number): Uint8Array =>
  entries.subarray(i * entrySize, (i + 1) * entrySize);

/** Whether the entries are whole and in strictly ascending order. */
export function areSorted(entries: Uint8Array): boolean {
  if (entries.length % entrySize !== 0) return false;
  for (let i = 1; i < countOf(entries); i++) {
    if (compare(entryAt(entries, i - 1), entryAt(entries, i)) >= 0) return false;
  }
  return true;
}

/** The position of an id, −1 if it is not among the entries. */
export function find(entries: Uint8Array, id: Uint8Array): number {
  let low = 0;
  let high = countOf(entries);
  while (low < high) {
    const middle = (low + high) >> 1;
    const order = compare(entryAt(entries, middle), id);
    if (order === 0) return middle;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return -1;
}

const leafPrefix = Uint8Array.of(0);

/** A Merkle tree (RFC 9162 §2.1) of leaves that arrive one by one. */
export class Tree {
  private count = 0;
  private readonly stack: Uint8Array[] = [];
  private readonly buffer = Uint8Array.of(1, ...new Uint8Array(64));

  add(data: Uint8Array): void {
    let leaf = hash(concat(leafPrefix, data));
    for (let n = this.count; n % 2 === 1; n = (n - 1) / 2) leaf = this.node(this.stack.pop() as Uint8Array, leaf);
    this.stack.push(leaf);
    this.count++;
  }

  root(): Uint8Array {
    if (this.count === 0) return hash(new Uint8Array());
    return this.stack.reduceRight((right, left) => this.node(left, right));
  }

  private node(left: Uint8Array, right: Uint8Array): Uint8Array {
    this.buffer.set(left, 1);
    this.buffer.set(right, 33);
    return hash(this.buffer);
  }
}

export async function rootOf(entries: Uint8Array, tick: Tick): Promise<Uint8Array> {
  const tree = new Tree();
  await inSlices(countOf(entries), tick, (i) => tree.add(entryAt(entries, i)));
  return tree.root();
}

/** The positions of the entries, in ascending order of HMAC-SHA256(key, entry). */
export async function orderOf(key: Uint8Array, entries: Uint8Array, tick: Tick): Promise<Uint32Array> {
  const count = countOf(entries);
  const macs = new Uint8Array(count * 32);
  const firsts = new Float64Array(count); // the first 48 bits, which decide nearly always
  const view = new DataView(macs.buffer);
  const base = hmac.create(sha256, key);
  let one = base.clone();
  await inSlices(count, tick, (i) => {
    one = base._cloneInto(one);
    macs.set(one.update(entryAt(entries, i)).digest(), i * 32);
    firsts[i] = view.getUint32(i * 32) * 0x10000 + view.getUint16(i * 32 + 4);
  });
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  const mac = (i: number) => macs.subarray(i * 32, (i + 1) * 32);
  return order.sort((a, b) => (firsts[a] as number) - (firsts[b] as number) || compare(mac(a), mac(b)) || a - b);
}
