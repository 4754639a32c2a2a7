import "./browser";
import { equal } from "node:assert/strict";
import { test } from "node:test";
import { cameFrom, clearTab, loginPath, onward, restoreFragment } from "../src/lib/onward";
import { ownPath } from "../src/lib/page";

/** Opens a page. */
const open = (path: string): unknown => Object.assign(globalThis, { location: new URL(path, "https://tickets.example") });

test("the query and the fragment of a link go along", () => {
  open("/events/e?x=1&utm_source=a#seats");
  equal(onward("/queue/e"), "/queue/e?x=1&utm_source=a#seats");
  open("/events/e");
  equal(onward("/queue/e"), "/queue/e");
});

test("parameters of a page are not replaced by those of a link", () => {
  open("/draws/e?of=a&x=1");
  equal(onward("/draws/e?of=lobby"), "/draws/e?of=lobby");
});

test("no link leads to another site", () => {
  for (const link of ["?//evil.example", "?@evil.example", "?x=\\\\evil", "#//evil.example", "?returnTo=https://evil.example"]) {
    open(`/vwr/e${link}`);
    const path = onward("/events/e");
    equal(new URL(path, location.origin).pathname, "/events/e");
    equal(ownPath(path), path);
  }
});

test("where a visitor comes from is the whole path", () => {
  open("/vwr/E1");
  for (const [referrer, came] of [
    ["https://tickets.example/queue/E1", true],
    ["https://tickets.example/queue/E1/?x=1#y", true],
    ["https://tickets.example/queue/E10", false],
    ["https://other.example/queue/E1", false],
    ["", false],
  ] as const) {
    Object.assign(document, { referrer });
    equal(cameFrom("/queue/E1"), came, referrer);
  }
});

const returnTo = () => ownPath(new URL(loginPath(), location.origin).searchParams.get("returnTo"));

/** Storage of a tab that has only what these pages use. */
const tab = new Map<string, string>();
Object.assign(globalThis, {
  sessionStorage: {
    getItem: (key: string) => tab.get(key) ?? null,
    setItem: (key: string, value: string) => tab.set(key, value),
    removeItem: (key: string) => tab.delete(key),
    clear: () => tab.clear(),
  },
  history: { replaceState: (_data: unknown, _title: string, path: string) => open(new URL(path, location.origin).href.slice(location.origin.length)) },
});

test("a sign-in returns to the same query and fragment, and no server sees the fragment", () => {
  open("/transfers?x=1&utm_source=a%20b#/secret");
  const path = returnTo();
  equal(/^\/transfers\?x=1&utm_source=a%20b#kept-[0-9a-f-]{36}$/.test(path), true, path);
  equal(returnTo(), path, "one name per page, however often the path is needed");
  tab.set("of the user before", "1");
  clearTab(path);
  open(path);
  restoreFragment();
  equal(location.hash, "#/secret");
  equal(location.search, "?x=1&utm_source=a%20b");
  equal(tab.size, 0);
});

test("a fragment that nothing is kept for is left out", () => {
  open("/my#kept-00000000-0000-4000-8000-000000000000");
  restoreFragment();
  equal(location.hash, "");
  open("/my#/claim");
  restoreFragment();
  equal(location.hash, "#/claim");
});

test("a tab keeps nothing when nothing is named", () => {
  tab.set("x", "1");
  clearTab();
  equal(tab.size, 0);
});

test("a sign-in returns to the page of a link that is too long", () => {
  open(`/vwr/e?x=${"q".repeat(1024)}`);
  equal(returnTo(), "/vwr/e");
  open(`/vwr/e?x=${"q".repeat(1010)}#h`);
  equal(returnTo(), `/vwr/e?x=${"q".repeat(1010)}`);
});
