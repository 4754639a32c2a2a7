// What the tier-1 page shows before the start of a room with a lobby.

import { serverNow } from "../lib/now";
import { fill } from "../lib/wait";
import type { Schedule } from "./line";

export interface Lobby {
  schedule: Schedule;
  // Of who has joined.
  receipt: string | undefined;
}

interface Text {
  lobby: string;
  lobbySoon: string;
  lobbyClosed: string;
  lobbyJoined: string;
  drawing: string;
  opened: string;
  turn: string;
  countdown: string;
  turnIn: string;
  join: string;
  find: string;
}

const element = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;

function setText(id: string, text: string): void {
  const place = element(id);
  // Setting the same text would announce it again.
  if (place.textContent !== text) place.textContent = text;
}

/** "1:02:03", or "02:03" below an hour. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (n: number): string => String(n).padStart(2, "0");
  const minutes = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return seconds < 3600 ? minutes : `${Math.floor(seconds / 3600)}:${minutes}`;
}

export function drawLobby({ schedule, receipt }: Lobby, text: Text, lang: string): void {
  const { asksAt, closesAt, lobbyOpensAt, opensAt } = schedule;
  const now = serverNow();
  const left = opensAt - now;
  // Where only few came, everybody asks at the start.
  const own = asksAt >= opensAt + 1000 && asksAt > now;
  const form = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "short" });
  const times = { time: form.format(opensAt), closes: form.format(closesAt), opens: form.format(lobbyOpensAt) };
  const sentence = (): string => {
    if (left <= 0 && own) return text.opened;
    if (receipt) return left > 0 ? text.lobbyJoined : text.drawing;
    if (!closesAt) return text.opened; // there is, or was, nothing to join
    if (now >= closesAt) return text.lobbyClosed;
    return now < lobbyOpensAt ? `${text.lobby} ${text.lobbySoon}` : text.lobby;
  };
  element("lobby").hidden = false;
  setText("schedule", fill(sentence(), times));
  setText("turn", own ? fill(text.turn, { time: new Intl.DateTimeFormat(lang, { timeStyle: "medium" }).format(asksAt) }) : "");
  setText("until", left > 0 ? text.countdown : text.turnIn);
  setText("countdown", countdown(left > 0 ? left : asksAt - now));
  element("joining").hidden = Boolean(receipt) || now < lobbyOpensAt || !closesAt;
  // Who has joined elsewhere finds the entry.
  setText("join", now >= closesAt ? text.find : text.join);
  element("receipt").hidden = !receipt;
  setText("receipt-text", receipt ?? "");
}
