import "./browser";
import { equal } from "node:assert/strict";
import { test } from "node:test";
import { loginPath, onward } from "../src/lib/onward";
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

const returnTo = () => ownPath(new URL(loginPath(), location.origin).searchParams.get("returnTo"));

test("a sign-in returns to the same query and fragment", () => {
  open("/vwr/e?x=1&utm_source=a%20b#seats");
  equal(returnTo(), "/vwr/e?x=1&utm_source=a%20b#seats");
});

test("a sign-in returns to the page of a link that is too long", () => {
  open(`/vwr/e?x=1#${"h".repeat(1024)}`);
  equal(returnTo(), "/vwr/e?x=1");
  open(`/vwr/e?x=${"q".repeat(1024)}#h`);
  equal(returnTo(), "/vwr/e");
});
