import { sha256 } from "@noble/hashes/sha2.js";

const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** The only spelling that is hashed: lower case. */
export const isHex = (text: unknown, size: number): text is string =>
  typeof text === "string" && text.length === 2 * size && /^[0-9a-f]*$/.test(text);

/** The bytes of text in hex. */
export function unhex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

export function concat(...parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Negative when a is smaller. Both have the same length. */
export function compare(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The bytes of unpadded base64url; undefined for any other spelling. */
export function unbase64url(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
  // The unused bits of the last character are zero.
  const again = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return again === text ? bytes : undefined;
}

export const hash = (bytes: Uint8Array): Uint8Array => sha256(bytes);

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The 16 bytes of a UUID; undefined for any but the canonical spelling. */
export const uuidBytes = (text: unknown): Uint8Array | undefined =>
  typeof text === "string" && uuidForm.test(text) ? unhex(text.replaceAll("-", "")) : undefined;

export function uuidText(bytes: Uint8Array): string {
  const digits = hex(bytes);
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join("-");
}
