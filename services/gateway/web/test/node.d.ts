// The few functions of Node that the tests use.

declare module "node:test" {
  export function test(name: string, run: () => void): void;
}

declare module "node:assert/strict" {
  export function equal(actual: unknown, expected: unknown): void;
  export function match(text: string, pattern: RegExp): void;
}
