// Polls which seats are free.

import { useEffect, useState } from "preact/hooks";
import { follow, send } from "./api";
import type { Line } from "./line";
import { repeat, untilVisible } from "./pace";
import { problemOf } from "./problem";
import type { Availability } from "./types";

const pollSeconds = 3;

export interface LiveAvailability {
  // Undefined until the first response: an unknown seat does not count as taken.
  now: Availability | undefined;
  failure: unknown;
  // Polls now instead of after the pause.
  refresh: () => void;
}

/** Polls the availability while the page is visible; an unchanged response is an empty 304. */
export function useAvailability(line: Line): LiveAvailability {
  const [now, setNow] = useState<Availability>();
  const [failure, setFailure] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let etag = "";
    const attempt = async () => {
      await untilVisible(abort.signal);
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
    void repeat(attempt, (cause) => follow(cause) || setFailure(cause), abort.signal);
    return () => abort.abort();
  }, [round]);
  return { now, failure, refresh: () => setRound((n) => n + 1) };
}
