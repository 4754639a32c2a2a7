// What comes with a link, such as a query that tells where it was found, goes along from page to page
// through both rooms and the sign-in. No imports of page data: the single-file page uses it too.

// What the gateway keeps of a sign-in.
const maxReturnPath = 1024;

/** The path with the query and the fragment of this page, unless it has a query of its own. */
export function onward(path: string): string {
  return path.includes("?") ? path : path + location.search + location.hash;
}

/** The path of this page, with as much of query and fragment as a sign-in keeps. */
export function returnPath(): string {
  const { pathname, search, hash } = location;
  const short = [pathname + search + hash, pathname + search].find((path) => path.length <= maxReturnPath);
  return short ?? pathname;
}

/** The path to sign in and return here. */
export const loginPath = (): string => `/login?returnTo=${encodeURIComponent(returnPath())}`;
