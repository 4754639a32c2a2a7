// The turn of the visitor on the pages of the shop: kept alive by heartbeats, counted down, with a
// notice at its end.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Line } from "./line";
import { onward } from "./onward";
import { strings } from "./page";
import { Countdown, Notice } from "./ui";

const common = strings("common");

export interface Turn {
  // Epoch milliseconds; undefined until the server sends it.
  end: number | undefined;
  over: boolean;
}

/** Keeps the slot of an event alive while the page is open. */
export function useTurn(line: Line | undefined, running: boolean): Turn {
  const [end, setEnd] = useState<number>();
  const [over, setOver] = useState(false);
  useEffect(() => {
    if (!line || !running) return undefined;
    const abort = new AbortController();
    void line.hold(setEnd, () => setOver(true), abort.signal);
    return () => abort.abort();
  }, [line, running]);
  return { end, over };
}

/** The time left in the turn; `children` are shown only during it. */
export function TurnBar({ turn, eventId, children }: { turn: Turn; eventId: string; children: ComponentChildren }) {
  if (turn.over) {
    return (
      <div class="card">
        <Notice tone="bad">{common.turnOver}</Notice>
        <p class="actions">
          <a class="button" href={onward(`/queue/${eventId}`)}>
            {common.joinAgain}
          </a>
          <a href={onward(`/events/${eventId}`)}>{common.toEvent}</a>
        </p>
      </div>
    );
  }
  return (
    <>
      {/* Its place is kept while the end is not known, or the page would jump under the visitor's finger. */}
      <p class="turn muted">
        {turn.end !== undefined && (
          <>
            {common.turnLeft} <Countdown end={turn.end} warning={common.turnSoon} />
          </>
        )}
      </p>
      {children}
    </>
  );
}

/**
 * Ensures that this tab has the entry token of the event before protected calls: a tab of another
 * event may have replaced it in the cookie. Goes to the line and never resolves when it is not the
 * turn of the visitor.
 */
export async function enter(line: Line, signal: AbortSignal): Promise<void> {
  const place = await line.status(signal);
  if (place.status === "active") return;
  location.replace(onward(`/queue/${line.eventId}`));
  await new Promise<never>(() => undefined);
}
