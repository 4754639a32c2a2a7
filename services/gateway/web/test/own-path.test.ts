import "./browser";
import { equal } from "node:assert/strict";
import { test } from "node:test";
import { ownPath } from "../src/lib/page";
import cases from "./return-paths.json";

// The table is also that of the gateway (TestOwnPath in internal/edge).
for (const { path, own, why } of cases as { path: string; own: boolean; why?: string }[]) {
  test(`${JSON.stringify(path)} ${why ?? ""}`, () => {
    equal(ownPath(path), own ? path : "/");
    equal(new URL(ownPath(path), location.origin).origin, location.origin);
  });
}

test("no path", () => {
  equal(ownPath(null), "/");
  equal(ownPath(undefined), "/");
});
