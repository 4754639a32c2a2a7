// A draw: its terms, how it went, and its verification in the browser.

import { useState } from "preact/hooks";
import { Check } from "../draw/check";
import { Limits, Result, Steps } from "../draw/parts";
import { call, Problem } from "../lib/api";
import { Download } from "../lib/download";
import type { DrawCopy, DrawDocument } from "../lib/fairdraw";
import { fill, pathPart, strings } from "../lib/page";
import { differ, keepCopy, readReceipts } from "../lib/receipts";
import { readPromotion } from "../lib/request";
import { copiesName, drawPath, ofLobby, receiptsName } from "../lib/drawsource";
import { decidingRound, drawSpread, isoTime, termsOf } from "../lib/drawn";
import { formatTime } from "../lib/format";
import { serverNow } from "../lib/now";
import { unknownCrowd, untilTurn } from "../lib/spread";
import { start } from "../lib/start";
import { Failure, NotLoaded, Notice, useHeading, useLoad } from "../lib/ui";

const t = strings("draw");
const eventId = pathPart(1);

interface State {
  draw: DrawDocument;
  /** When it was asked for, in ms, by the slower of the two clocks, so that a wrong one calls nothing overdue. */
  readAt: number;
  // What this browser has seen of the draw, now included.
  copies: DrawCopy[];
  title: string;
}

async function readState(signal: AbortSignal): Promise<State> {
  const asked = Date.now();
  const draw = call<DrawDocument>("GET", drawPath(eventId), { signal }).then((document) => {
    const age = Math.max(0, Date.now() - asked);
    return { draw: document, readAt: Math.min(Date.now(), serverNow()) - age, copies: keepCopy(document, copiesName(document), age) };
  });
  const title = readPromotion(eventId, signal).then((promotion) => promotion.title, (failure: unknown) => {
    if (failure instanceof Problem) return ""; // the draw is shown without its title too
    throw failure;
  });
  const [read, name] = await Promise.all([draw, title]);
  return { ...read, title: name };
}

/** Seconds until the draw is read again: after what is due next, at an own time since others wait for it too, else seldom. */
function untilChange({ draw }: State): number | undefined {
  if (draw.phase === "SETTLED" || draw.phase === "VOID") return undefined;
  const { announcedAt, cutoffAt } = termsOf(draw);
  const due = [cutoffAt, decidingRound(draw)?.at, announcedAt].filter((at): at is number => at !== undefined && at > serverNow());
  const over = Math.max(unknownCrowd, drawSpread(draw));
  const next = due.length > 0 ? untilTurn(Math.min(...due) - serverNow(), over) : 15;
  return Math.min(draw.phase === "OPEN" ? 300 : Math.max(30, 5 * over), next);
}

/** Why a draw has no winners. Only the operator knows of a lost key; a round can be looked up. */
function whyVoid({ voidReason }: DrawDocument): string {
  switch (voidReason) {
    case "SIGNING_KEY_LOST":
      return t.voidSigningKey;
    case "SEED_KEY_LOST":
      return t.voidSeedKey;
    case "BEACON_LOST":
      return t.voidBeacon;
    default:
      return t.void;
  }
}

function Copies({ copies }: { copies: DrawCopy[] }) {
  const first = copies.find((c) => c.statement);
  const file = <Download name={`draw-${eventId}.json`} type="application/json" text={JSON.stringify(copies)} label={t.copySave} />;
  return (
    <section class="card" aria-labelledby="copies">
      <h2 id="copies">{t.copies}</h2>
      {differ(copies) && (
        <Notice tone="bad">
          <p>{t.second}</p>
        </Notice>
      )}
      <p>{first ? fill(t.copySeen, { time: formatTime(isoTime(first.savedAt)) }) : t.copyNone}</p>
      <p class="muted">{t.copyHelp}</p>
      <p>{file}</p>
    </section>
  );
}

function DrawPage() {
  const loaded = useLoad(readState, untilChange);
  // Read once: pages of the same browser may add one meanwhile, but its text must not jump.
  const [receipts] = useState(() => readReceipts(receiptsName(eventId)));
  useHeading(loaded.state === "ready" && loaded.value.title ? fill(t.heading, { title: loaded.value.title }) : "");
  if (loaded.state === "failed" && loaded.failure instanceof Problem && loaded.failure.status === 404) return <Unknown failure={loaded.failure} />;
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const { copies, draw, readAt } = loaded.value;
  return (
    <>
      {draw.phase === "VOID" && (
        <Notice tone="bad">
          <p>{whyVoid(draw)}</p>
        </Notice>
      )}
      <div class="columns event">
        <div>
          <Steps draw={draw} />
          <Result draw={draw} own={receipts.map((r) => r.requestId)} />
        </div>
        <div class="enter">
          <Check draw={draw} readAt={readAt} copies={copies} receipts={receipts} />
          <Copies copies={copies} />
        </div>
        <Limits draw={draw} />
      </div>
      <p>
        <a href={ofLobby ? `/vwr/${eventId}` : `/promo/${eventId}`}>{ofLobby ? t.toRoom : t.toPromotion}</a>
      </p>
    </>
  );
}

function Unknown({ failure }: { failure: Problem }) {
  return (
    <>
      <Failure failure={failure} />
      <p>
        <a href={ofLobby ? `/vwr/${eventId}` : `/promo/${eventId}`}>{ofLobby ? t.toRoom : t.toPromotion}</a>
      </p>
    </>
  );
}

start(DrawPage);
