// The seats' state in the page: what is free, asked again and again, and what the visitor has chosen.

import { useEffect, useRef, useState } from "preact/hooks";
import { backoff, follow, Problem, send } from "../lib/api";
import type { Line } from "../lib/line";
import { problemOf } from "../lib/problem";
import type { Availability } from "../lib/types";
import { type Layout, unpack } from "./layout";

const pollSeconds = 3;

export interface Hall {
  free: Uint8Array;
  // Index of each chosen seat, in the order of choosing.
  chosen: ReadonlySet<number>;
  setChosen: (chosen: ReadonlySet<number>) => void;
  // Asks now instead of at the next poll.
  refresh: () => void;
  failure: unknown;
}

/** Asks what is free every few seconds while the page is seen; an unchanged answer is a bare 304. */
export function useHall(line: Line, layout: Layout, onGone: (seats: number[]) => void): Hall {
  const [free, setFree] = useState<Uint8Array>(() => new Uint8Array(layout.seats));
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set<number>());
  const [failure, setFailure] = useState<unknown>();
  const [round, setRound] = useState(0);
  const latest = useRef({ chosen, onGone });
  latest.current = { chosen, onGone };

  useEffect(() => {
    const abort = new AbortController();
    const poll = watch(line, layout, abort.signal, setFailure, (now) => {
      setFree(now);
      const gone = [...latest.current.chosen].filter((i) => !now[i]);
      if (gone.length === 0) return;
      setChosen(new Set([...latest.current.chosen].filter((i) => now[i])));
      latest.current.onGone(gone);
    });
    void poll;
    return () => abort.abort();
  }, [round]);

  return { free, chosen, setChosen, refresh: () => setRound((n) => n + 1), failure };
}

async function watch(
  line: Line,
  layout: Layout,
  signal: AbortSignal,
  fail: (failure: unknown) => void,
  show: (free: Uint8Array) => void,
): Promise<void> {
  let etag = "";
  for (let failures = 0; !signal.aborted; ) {
    let pause = pollSeconds;
    try {
      const headers = { ...line.headers(), ...(etag ? { "If-None-Match": etag } : {}) };
      const answer = await send("GET", `/seats/${line.eventId}/availability`, { headers, signal });
      if (answer.status !== 304) {
        if (!answer.ok) throw await problemOf(answer);
        const body = (await answer.json()) as Availability;
        etag = answer.headers.get("ETag") ?? "";
        show(unpack(body.bitmap, layout.seats));
      }
      failures = 0;
      fail(undefined);
    } catch (failure) {
      if (signal.aborted || follow(failure)) return;
      fail(failure);
      if (!(failure instanceof Problem) || !failure.temporary) return;
      pause = backoff(++failures, failure.retryAfter);
    }
    await seen(pause, signal);
  }
}

/** Waits, and goes on only while the page is looked at: a hidden map needs no answers. */
async function seen(seconds: number, signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  while (document.hidden && !signal.aborted) {
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}
