// The tier-1 page: a single file, the same for every event, visitor and language.

import { sale as englishSale, vwr as english, wait as englishWait } from "../../../internal/web/lang/en.json";
import { sale as koreanSale, vwr as korean, wait as koreanWait } from "../../../internal/web/lang/ko.json";
import { Clock } from "../lib/clock";
import { cameFrom, loginPath, onward, restoreFragment, returnPath } from "../lib/onward";
import { Problem } from "../lib/problem";
import { saleText } from "../lib/standing";
import { readStored, writeStored } from "../lib/store";
import type { EventStatus } from "../lib/types";
import { fill, waitText } from "../lib/wait";
import { type Next, type Progress, Room, type Schedule, type Screen } from "./line";
import { drawLobby, type Lobby } from "./lobby";
import { solveIn } from "./proof";

// The scripts of the workers as text: this page loads no other file.
declare const CLOCK_SOURCE: string;
declare const PROOF_SOURCE: string;

type Lang = "en" | "ko";
type Text = typeof english & typeof englishWait;

const texts: Record<Lang, Text> = { en: { ...english, ...englishWait }, ko: { ...korean, ...koreanWait } };
const sales: Record<Lang, typeof englishSale> = { en: englishSale, ko: koreanSale };
const otherLanguage: Record<Lang, { lang: Lang; name: string }> = {
  en: { lang: "ko", name: "한국어" },
  ko: { lang: "en", name: "English" },
};
// The pages of what a room may stand in front of.
const pages: Record<Next, string> = { QUEUE: "/events/", PROMO: "/promo/", REWARD: "/rewards/" };
// The least time between two announcements.
const announceMs = 30_000;

let lang = chosenLanguage();
// How many were ahead when the number was taken: progress is measured from there, also after a
// reload.
let first = 0;
let sale: EventStatus | undefined;
let redraw: (() => void) | undefined;
let lastAnnounced = 0;
let lobby: Lobby | undefined;

const element = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const number = (n: number): string => new Intl.NumberFormat(lang).format(n);
/**
 * The language chosen by the visitor, else that of the browser: this page is cached, so the server
 * cannot decide.
 */
function chosenLanguage(): Lang {
  const cookie = /(?:^|; )urr-lang=(en|ko)(?:;|$)/.exec(document.cookie)?.[1];
  if (cookie === "en" || cookie === "ko") return cookie;
  const preferred = navigator.languages.find((l) => /^(en|ko)\b/i.test(l)) ?? "";
  return preferred.toLowerCase().startsWith("ko") ? "ko" : "en";
}

function applyLanguage(): void {
  const text = texts[lang];
  document.documentElement.lang = lang;
  for (const node of document.querySelectorAll<HTMLElement>("[data-text]")) {
    node.textContent = text[node.dataset["text"] as keyof Text];
  }
  element("progress").setAttribute("aria-label", text.progress);
  const button = element("language");
  button.textContent = otherLanguage[lang].name;
  button.lang = otherLanguage[lang].lang;
  document.title = `${text.title} · URR`;
  drawSale();
  tick();
  redraw?.();
}

function switchLanguage(): void {
  lang = otherLanguage[lang].lang;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `urr-lang=${lang}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  lastAnnounced = 0;
  applyLanguage();
}

/** Draws something, and again when the language changes. */
function show(draw: () => void): void {
  redraw = draw;
  draw();
}

function setText(id: string, text: string): void {
  const place = element(id);
  // Setting the same text would announce it again.
  if (place.textContent !== text) place.textContent = text;
}

const notice = (text: string): void => setText("notice", text);

const drawSale = (): void => setText("sale", saleText(sale, sales[lang], true));

/** Draws the lobby, every second. */
function tick(): void {
  if (lobby) drawLobby(lobby, texts[lang], lang);
}

function leaveLobby(): void {
  lobby = undefined;
  element("lobby").hidden = true;
  element("signed-out").hidden = true;
}

function drawPosition(position: number): void {
  leaveLobby();
  notice(texts[lang].wait);
  element("line").hidden = false;
  element("position").textContent = number(position);
}

function drawProgress(p: Progress, at: number): void {
  const text = texts[lang];
  const wait = p.estimatedWait === undefined ? "" : waitText(p.estimatedWait, text);
  drawPosition(p.position);
  element("serving").textContent = number(p.serving);
  // The API counts how far the counter has to move; the last step is that of the visitor.
  const people = number(Math.max(0, p.ahead - 1));
  element("ahead").textContent = people;
  element("wait").textContent = wait;
  element("estimate").hidden = !wait;
  const time = new Intl.DateTimeFormat(lang, { timeStyle: "medium" }).format(at);
  element("updated").textContent = fill(text.updated, { time });
  element("progress").setAttribute("value", String(Math.min(1, Math.max(0, 1 - p.ahead / (first || 1)))));
  document.title = `${people} · ${text.title} · URR`;
  if (Date.now() - lastAnnounced < announceMs) return;
  lastAnnounced = Date.now();
  const spoken = wait ? text.status : text.statusHalted;
  element("spoken").textContent = fill(spoken, { position: number(p.position), serving: number(p.serving), wait });
}

function showSignIn(reason: "signedOut" | "signInFirst"): void {
  leaveLobby();
  element("line").hidden = true;
  element("sign-in").setAttribute("href", loginPath());
  element("signed-out").hidden = false;
  show(() => notice(texts[lang][reason]));
}

const drawnKey = (eventId: string): string => `urr-drawn-${eventId}`;

/** Links to the verification of the draw. */
function showDrawn(eventId: string): void {
  element("verify").setAttribute("href", `/draws/${eventId}?of=lobby`);
  element("drawn").hidden = false;
}

/** Offers the way past the room to who may buy in the presale. Whom the line has sent back reads why. */
function showPresale(eventId: string, on: boolean): void {
  const way = `/queue/${eventId}`; // /events asks for a number
  element("enter-presale").setAttribute("href", onward(way));
  element("not-entitled").hidden = !cameFrom(way);
  element("presale").hidden = !on;
}

const screen = (eventId: string): Screen => ({
  taking: () => show(() => notice(texts[lang].taking)),
  solving: () => show(() => notice(texts[lang].solving)),
  kept: (position: number) => show(() => drawPosition(position)),
  lobby(schedule: Schedule, receipt: string | undefined, presale: boolean) {
    lobby = { schedule, receipt };
    showPresale(eventId, presale);
    element("line").hidden = true;
    element("signed-out").hidden = true;
    show(() => notice(""));
    tick();
  },
  drawn() {
    writeStored(sessionStorage, drawnKey(eventId), "1");
    showDrawn(eventId);
  },
  progress(p) {
    const way = `urr-way-vwr-${eventId}`;
    first = Math.max(Number(readStored(sessionStorage, way)), p.ahead);
    writeStored(sessionStorage, way, String(first));
    const at = Date.now();
    sale = p.sale;
    drawSale();
    showPresale(eventId, sale === "PRESALE");
    show(() => drawProgress(p, at));
  },
  renewed() {
    writeStored(sessionStorage, `urr-way-vwr-${eventId}`, "");
    writeStored(sessionStorage, drawnKey(eventId), "");
    element("drawn").hidden = true;
    leaveLobby();
    element("line").hidden = true;
    show(() => notice(texts[lang].renewed));
  },
  signedOut: () => showSignIn("signedOut"),
  signIn: () => showSignIn("signInFirst"),
  offline: (seconds: number, failure: Problem) =>
    show(() => notice(failure.message || fill(texts[lang].offline, { s: number(seconds) }))),
  refused(failure: Problem) {
    leaveLobby();
    element("line").hidden = true;
    show(() => notice(failure.message));
  },
  test(page: string) {
    const target = new URL(page, location.href);
    target.searchParams.set("returnTo", returnPath());
    location.replace(target);
  },
  admitted(next: Next = "QUEUE") {
    leaveLobby();
    show(() => notice(texts[lang].admitted));
    location.replace(onward(pages[next] + eventId));
  },
  over(status: EventStatus) {
    leaveLobby();
    element("line").hidden = true;
    sale = undefined;
    drawSale();
    showPresale(eventId, false);
    document.title = `${texts[lang].title} · URR`;
    show(() => notice(saleText(status, sales[lang], true)));
  },
});

function start(): void {
  restoreFragment();
  applyLanguage();
  element("language").addEventListener("click", switchLanguage);
  const eventId = /^\/vwr\/([A-Za-z0-9_-]{1,64})\/?$/.exec(location.pathname)?.[1];
  if (!eventId) return show(() => notice(texts[lang].badPath));
  const clock = new Clock(startWorker(CLOCK_SOURCE));
  const solve = solveIn(() => startWorker(PROOF_SOURCE));
  const room = new Room(eventId, clock, screen(eventId), () => lang, solve, takeCaptcha());
  element("join").addEventListener("click", () => void join(room));
  setInterval(tick, 1000);
  if (readStored(sessionStorage, drawnKey(eventId))) showDrawn(eventId);
  void room.run();
}

/** Returns the token that the page of the test has added to the address, and removes it there. */
function takeCaptcha(): string {
  const token = new URLSearchParams(location.hash.slice(1)).get("captcha") ?? "";
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

function startWorker(source: string): Worker {
  return new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
}

/** Joins the lobby; who is not signed in does that first, and comes back. */
async function join(room: Room): Promise<void> {
  const button = element("join") as HTMLButtonElement;
  button.disabled = true;
  try {
    if (!(await room.join())) location.assign(loginPath());
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure;
    show(() => notice(failure.message || fill(texts[lang].offline, { s: number(1) })));
  } finally {
    button.disabled = false;
  }
}

start();
