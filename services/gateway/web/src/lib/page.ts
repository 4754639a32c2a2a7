// The data that the server put into the page: name, language, sentences, and the id in the path.

import type en from "../../../internal/web/lang/en.json";

export { fill } from "./wait";

export type Catalogue = typeof en;

interface PageData {
  page: string;
  lang: "en" | "ko";
  devLogin: boolean;
  clock: string;
  strings: Partial<Catalogue>;
}

export const page: PageData = JSON.parse(document.getElementById("page")?.textContent ?? "{}") as PageData;

/** The sentences of a group in the page: "common", "wait", "sale" and that of the page. */
export function strings<G extends keyof Catalogue>(group: G): Catalogue[G] {
  const found = page.strings[group];
  if (!found) throw new Error(`no sentences for ${group}`);
  return found as Catalogue[G];
}

/** The n-th part of the path, from 0: in /queue/{eventId} the event id is part 1. */
export function pathPart(n: number): string {
  return decodeURIComponent(location.pathname.split("/").filter(Boolean)[n] ?? "");
}

/**
 * A path of this site, or "/" for anything else: "//host", "/\\host", "https:…", and "/.//host",
 * whose normal form "//host" is a URL of another site.
 */
export function ownPath(path: string | null | undefined): string {
  if (!path || !path.startsWith("/")) return "/";
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin || url.pathname.startsWith("//")) return "/";
  return url.pathname + url.search + url.hash;
}

/** The path to sign in and return here. */
export function loginPath(): string {
  return `/login?returnTo=${encodeURIComponent(location.pathname + location.search)}`;
}
