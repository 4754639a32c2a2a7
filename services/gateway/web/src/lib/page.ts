// The data that the server put into the page: name, language, sentences, and the id in the path.

import type en from "../../../internal/web/lang/en.json";

export { fill } from "./wait";

export type Catalogue = typeof en;

interface PageData {
  page: string;
  lang: "en" | "ko";
  // How users can sign in: by name only, at the identity provider.
  devLogin: boolean;
  provider: boolean;
  // Whether campaigns and rewards are served.
  rewards: boolean;
  // Whether promotions are served.
  promotions: boolean;
  clock: string;
  strings: Partial<Catalogue>;
}

export const page: PageData = JSON.parse(document.getElementById("page")?.textContent ?? "{}") as PageData;

/**
 * The sentences of a group in the page: "common", "wait", "sale", "reward", "request", "refund" and that of the page.
 */
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
 * The path, or "/" if it may lead to another site: browsers read "\\" as "/", remove tabs and line
 * breaks, and resolve dot segments, so that "/.//host" is the URL "//host". The gateway has the
 * same rule, `edge.OwnPath`; the cases of both are in test/return-paths.json.
 */
export function ownPath(path: string | null | undefined): string {
  if (!path || /[\u0000-\u0020\u007f]/.test(path)) return "/";
  const [name = ""] = path.split(/[?#]/, 1);
  if (!name.startsWith("/") || name.includes("\\")) return "/";
  const segments = name.slice(1).split("/");
  const last = segments.length - 1;
  const plain = segments.every((s, i) => (s !== "" || i === last) && !/^(\.|%2e){1,2}$/i.test(s));
  return plain ? path : "/";
}
