// What the server put into the page: its name, the language, the sentences, and the path's own id.

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

/** The sentences of a group that the server sent along: "common", "wait", "sale" and the page's own. */
export function strings<G extends keyof Catalogue>(group: G): Catalogue[G] {
  const found = page.strings[group];
  if (!found) throw new Error(`no sentences for ${group}`);
  return found as Catalogue[G];
}

/** The n-th part of the path, from 0: the event id in /queue/{eventId} is part 1. */
export function pathPart(n: number): string {
  return decodeURIComponent(location.pathname.split("/").filter(Boolean)[n] ?? "");
}

/**
 * A path of this site, or "/" for anything that leads elsewhere: "//host", "/\\host", "https:…", and
 * "/.//host", which is a path of this site whose normal form "//host" is an address of another.
 */
export function ownPath(path: string | null | undefined): string {
  if (!path || !path.startsWith("/")) return "/";
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin || url.pathname.startsWith("//")) return "/";
  return url.pathname + url.search + url.hash;
}

/** Where to sign in and come back here. */
export function loginPath(): string {
  return `/login?returnTo=${encodeURIComponent(location.pathname + location.search)}`;
}
