// The few functions of Node that the tests use.

declare module "node:test" {
  export function test(name: string, run: () => void | Promise<void>): void;
}

declare module "node:assert/strict" {
  export function deepEqual(actual: unknown, expected: unknown): void;
  export function equal(actual: unknown, expected: unknown, message?: string): void;
  export function match(text: string, pattern: RegExp): void;
  export function rejects(promise: Promise<unknown>, error: RegExp): Promise<void>;
  export function ok(value: unknown, message?: string): void;
}

declare module "node:crypto" {
  export function createHash(algorithm: string): { update(text: string): { digest(encoding: "hex"): string } };
}
