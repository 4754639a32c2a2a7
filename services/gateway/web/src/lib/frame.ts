// What every page's frame can do: change the language, sign out.

import { call, explain, Problem } from "./api";
import { page } from "./page";

function changeLanguage(lang: string): void {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `urr-lang=${lang}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  // A browser may store a cookie after the script went on, and send the reload without it. Reading it waits for that.
  void document.cookie;
  location.reload();
}

async function signOut(): Promise<void> {
  try {
    await call<void>("POST", "/auth/logout");
  } catch (failure) {
    // Nobody shall believe to be signed out who is not; without a session there is nothing to end.
    if (!(failure instanceof Problem && failure.status === 401)) return alert(explain(failure));
  }
  // Whatever this tab kept belongs to the one who leaves.
  sessionStorage.clear();
  location.assign("/");
}

export function startFrame(): void {
  const language = document.getElementById("language");
  language?.addEventListener("click", () => changeLanguage(language.dataset["lang"] ?? "en"));
  document.getElementById("sign-out")?.addEventListener("click", () => void signOut());
  const signIn = document.getElementById("sign-in");
  if (signIn instanceof HTMLAnchorElement && page.page !== "events") {
    signIn.href = `/login?returnTo=${encodeURIComponent(location.pathname)}`;
  }
}

/** Sets the page's heading and title once its subject is known. */
export function setHeading(text: string): void {
  const heading = document.querySelector("main > h1");
  if (heading) heading.textContent = text;
  document.title = `${text} · URR`;
}
