// What comes with a link, such as a query that tells where it was found, goes along from page to page
// through both rooms and the sign-in. No imports of page data: the single-file page uses it too.

import { readStored, writeStored } from "./store";
import { uuid } from "./uuid";

/** Whether the page at a path of this site has sent the visitor here. */
export const cameFrom = (path: string): boolean => document.referrer.replace(/\/?([?#].*)?$/, "") === location.origin + path;

// What the gateway keeps of a sign-in.
const maxReturnPath = 1024;

/** The path with the query and the fragment of this page, unless it has a query of its own. */
export function onward(path: string): string {
  return path.includes("?") ? path : path + location.search + location.hash;
}

/** The path of this page, with its query if a sign-in keeps one as long. */
export function returnPath(): string {
  const path = location.pathname + location.search;
  return path.length <= maxReturnPath ? path : location.pathname;
}

// A fragment that stands for one which the browser keeps during a sign-in.
const kept = /#kept-[0-9a-f-]{36}$/;
let keptHere = "";

/**
 * The path to sign in and return here. The fragment may be a secret, and this path gets into the logs of
 * servers. So the fragment stays in the browser, and the path has a random name of it.
 */
export function loginPath(): string {
  let path = returnPath();
  if (location.hash) {
    keptHere ||= `#kept-${uuid()}`;
    writeStored(sessionStorage, keptHere, location.hash);
    if (path.length + keptHere.length <= maxReturnPath) path += keptHere;
  }
  return `/login?returnTo=${encodeURIComponent(path)}`;
}

/** Gives this page the fragment back that it had before a sign-in. Called before the fragment is read. */
export function restoreFragment(): void {
  const [name] = kept.exec(location.hash) ?? [];
  if (!name) return;
  const fragment = readStored(sessionStorage, name);
  writeStored(sessionStorage, name, "");
  history.replaceState(null, "", location.pathname + location.search + fragment);
}

/** Deletes the data of this tab, which belongs to its user, but the fragment that a path to return to names. */
export function clearTab(returnTo = ""): void {
  const [name = ""] = kept.exec(returnTo) ?? [];
  const fragment = name && readStored(sessionStorage, name);
  sessionStorage.clear();
  if (name) writeStored(sessionStorage, name, fragment);
}
