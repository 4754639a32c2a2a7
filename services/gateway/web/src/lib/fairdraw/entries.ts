// One pass over the entries, chunk by chunk: their root and order, which requests are among them, and who
// wins. A million entries take some seconds, in slices, so that the page stays alive.

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { compare, concat, hash, uuidText } from "./bytes";

const entrySize = 16;
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

const countOf = (entries: Uint8Array): number => entries.length / entrySize;

const entryAt = (entries: Uint8Array, i: number): Uint8Array =>
  entries.subarray(i * entrySize, (i + 1) * entrySize);

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

/** The positions of the entries, in ascending order of HMAC-SHA256(key, entry). */
async function orderOf(key: Uint8Array, entries: Uint8Array, tick: Tick): Promise<Uint32Array> {
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

interface Ranked {
  id: Uint8Array;
  mac: Uint8Array;
}

const compareRanked = (a: Ranked, b: Ranked): number => compare(a.mac, b.mac) || compare(a.id, b.id);

/** The `size` smallest of many. */
class Smallest {
  private kept: Ranked[] = [];
  private limit: Ranked | undefined;

  constructor(private readonly size: number) {}

  add(entry: Ranked): void {
    if (this.limit && compareRanked(entry, this.limit) > 0) return;
    this.kept.push({ ...entry, id: entry.id.slice() }); // a part of the chunk would keep all of it
    if (this.kept.length >= 2 * this.size + 1000) this.sorted();
  }

  sorted(): Ranked[] {
    this.kept = this.kept.sort(compareRanked).slice(0, this.size);
    if (this.kept.length === this.size) this.limit = this.kept.at(-1);
    return this.kept;
  }
}

/**
 * What one pass over the entries finds out. Only a shuffle, whose order needs all entries, keeps them. The
 * key is that of the published result, if there is one; whether it is genuine is for others to say.
 */
export class Survey {
  count = 0;
  isSorted = true;
  private readonly tree = new Tree();
  private readonly wanted: Uint8Array[];
  private readonly found = new Set<string>();
  private readonly smallest: Smallest;
  private readonly ranks: { own: Ranked; rank: number }[] = [];
  private readonly parts: Uint8Array[] = [];
  private readonly mac: ((id: Uint8Array) => Uint8Array) | undefined;
  private readonly shuffled: boolean;
  private last: Uint8Array | undefined;
  private next = 0;

  /** Wanted are ids that may be entries; of `ranked` the ranks are counted. */
  constructor(wanted: Uint8Array[], ranked: Uint8Array[], key: Uint8Array | undefined, winners: number | undefined) {
    this.wanted = [...wanted, ...ranked].sort(compare);
    this.smallest = new Smallest(winners ?? 0);
    this.shuffled = winners === undefined;
    if (!key) return;
    const base = hmac.create(sha256, key);
    let one = base.clone();
    this.mac = (id) => {
      one = base._cloneInto(one);
      return one.update(id).digest();
    };
    for (const id of ranked) this.ranks.push({ own: { id, mac: this.mac(id) }, rank: 1 });
  }

  /** Takes the next entries. */
  async add(chunk: Uint8Array, tick: Tick): Promise<void> {
    const whole = Math.floor(countOf(chunk));
    if (chunk.length % entrySize !== 0) this.isSorted = false;
    if (this.shuffled && this.mac) this.parts.push(chunk);
    await inSlices(whole, tick, (i) => this.take(entryAt(chunk, i)));
  }

  private take(id: Uint8Array): void {
    if (this.last && compare(this.last, id) >= 0) this.isSorted = false;
    this.last = id;
    this.count++;
    this.tree.add(id);
    while (this.next < this.wanted.length && compare(this.wanted[this.next] as Uint8Array, id) < 0) this.next++;
    if (this.next < this.wanted.length && compare(this.wanted[this.next] as Uint8Array, id) === 0) this.found.add(uuidText(id));
    if (!this.mac || (this.shuffled && this.ranks.length === 0)) return;
    const entry = { id, mac: this.mac(id) };
    for (const r of this.ranks) if (compareRanked(entry, r.own) < 0) r.rank++;
    if (!this.shuffled) this.smallest.add(entry);
  }

  root(): Uint8Array {
    return this.tree.root();
  }

  has(requestId: string): boolean {
    return this.found.has(requestId);
  }

  winners(): Uint8Array[] {
    return this.smallest.sorted().map(({ id }) => id);
  }

  /** The rank of the i-th of `ranked`, from 1. */
  rank(i: number): number {
    return this.ranks[i]?.rank ?? 0;
  }

  /** The hash of all ids in the order of a shuffle. */
  async orderHash(key: Uint8Array, tick: Tick): Promise<Uint8Array> {
    const all = concat(...this.parts);
    const ordered = new Uint8Array(all.length);
    (await orderOf(key, all, tick)).forEach((entry, i) => ordered.set(entryAt(all, entry), i * entrySize));
    return hash(ordered);
  }
}
