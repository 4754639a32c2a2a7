// The frame of every page: language and sign-out.

import { call, explain } from "./api";
import { clearTab, loginPath } from "./onward";
import { page } from "./page";

function changeLanguage(lang: string): void {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `urr-lang=${lang}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  // Browsers may store the cookie asynchronously and send the reload without it. Reading it waits
  // for that.
  void document.cookie;
  location.reload();
}

async function signOut(): Promise<void> {
  let next = "/";
  try {
    // A session that began at the identity provider is ended there too.
    next = (await call<{ redirectTo: string } | undefined>("POST", "/auth/logout"))?.redirectTo ?? next;
  } catch (failure) {
    // Show a failure, so that nobody believes to be signed out who is not.
    return alert(explain(failure));
  }
  clearTab();
  location.assign(next);
}

export function startFrame(): void {
  const language = document.getElementById("language");
  language?.addEventListener("click", () => changeLanguage(language.dataset["lang"] ?? "en"));
  const signOutButton = document.getElementById("sign-out");
  signOutButton?.addEventListener("click", () => void signOut());
  const signIn = document.getElementById("sign-in");
  if (hasSession()) {
    signOutButton?.removeAttribute("hidden");
    signIn?.setAttribute("hidden", "");
  }
  if (signIn instanceof HTMLAnchorElement && page.page !== "events") {
    signIn.href = loginPath();
  }
}

/**
 * Whether the browser may have a session, which scripts cannot read: a cookie without rights tells. The
 * session may have ended elsewhere.
 */
export const hasSession = (): boolean => /(?:^|; )urr-signed-in=1(?:;|$)/.test(document.cookie);

/** Sets the heading and the title of the page once its subject is known. */
export function setHeading(text: string): void {
  const heading = document.querySelector("main > h1");
  if (heading instanceof HTMLElement) {
    heading.textContent = text;
    heading.dir = "auto"; // titles have any language
  }
  document.title = `${text} · URR`;
}
