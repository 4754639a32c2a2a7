import "./browser";
import { deepEqual } from "node:assert/strict";
import { test } from "node:test";
import en from "../../internal/web/lang/en.json";
import type { Schedule } from "../src/room/line";
import { drawLobby } from "../src/room/lobby";

/** Draws the lobby; returns the sentence and what the clock counts down to. */
function draw(schedule: Partial<Schedule>, receipt?: string): [sentence: string | undefined, until: string | undefined] {
  const texts = new Map<string, { textContent: string }>();
  Object.assign(document, {
    getElementById: (id: string) => {
      if (!texts.has(id)) texts.set(id, { textContent: "" });
      return texts.get(id);
    },
  });
  drawLobby({ schedule: { lobbyOpensAt: 0, closesAt: 0, opensAt: 0, asksAt: 0, ...schedule }, receipt }, en.vwr, "en");
  return [texts.get("schedule")?.textContent, texts.get("until")?.textContent];
}

const at = (seconds: number): number => Date.now() + 1000 * seconds;

test("a room without a lobby says that it has opened, also once the turn has come", () => {
  for (const asksAt of [at(20), at(-1)]) deepEqual(draw({ opensAt: at(-60), asksAt }), [en.vwr.opened, en.vwr.turnIn]);
});

test("who has joined reads when places are drawn, and then that they are, also after a reload", () => {
  deepEqual(draw({ opensAt: at(60), asksAt: at(60) }, "r")[1], en.vwr.countdown);
  deepEqual(draw({ opensAt: at(-1), asksAt: at(-1) }, "r"), [en.vwr.drawing, en.vwr.turnIn]);
});

test("who has not joined in time reads that joining has ended", () => {
  const [sentence] = draw({ lobbyOpensAt: at(-90), closesAt: at(-30), opensAt: at(-1), asksAt: at(-1) });
  deepEqual(sentence?.split(".")[0], en.vwr.lobbyClosed.split(".")[0]);
});
