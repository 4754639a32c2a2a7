// What is free, asked again and again.

import { useEffect, useState } from "preact/hooks";
import { follow, send } from "./api";
import type { Line } from "./line";
import { repeat, seen } from "./pace";
import { problemOf } from "./problem";
import type { Availability } from "./types";

const pollSeconds = 3;

export interface Hall {
  // Nothing until the first answer: an unknown seat is not a taken one.
  now: Availability | undefined;
  failure: unknown;
  // Asks now instead of at the next poll.
  refresh: () => void;
}

/** Asks what is free every few seconds while the page is seen; an unchanged answer is a bare 304. */
export function useHall(line: Line): Hall {
  const [now, setNow] = useState<Availability>();
  const [failure, setFailure] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let etag = "";
    const ask = async () => {
      await seen(abort.signal);
      const headers = { ...line.headers(), ...(etag ? { "If-None-Match": etag } : {}) };
      const answer = await send("GET", `/seats/${line.eventId}/availability`, { headers, signal: abort.signal });
      if (answer.status !== 304) {
        if (!answer.ok) throw await problemOf(answer);
        setNow((await answer.json()) as Availability);
        etag = answer.headers.get("ETag") ?? "";
      }
      setFailure(undefined);
      return pollSeconds;
    };
    void repeat(ask, (cause) => follow(cause) || setFailure(cause), abort.signal);
    return () => abort.abort();
  }, [round]);
  return { now, failure, refresh: () => setRound((n) => n + 1) };
}
