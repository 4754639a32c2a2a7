// The event of a reservation or a ticket.

import { useEffect, useState } from "preact/hooks";
import { PostponedNotice, readEvent, SaleNotice } from "./sale";
import type { SaleEvent } from "./types";
import { formatEventTime } from "./zone";

const events = new Map<string, Promise<SaleEvent | undefined>>();

/** Reads an event once; undefined on failure. */
export function eventOf(eventId: string): Promise<SaleEvent | undefined> {
  let event = events.get(eventId);
  if (!event) {
    event = readEvent(eventId).catch(() => undefined);
    events.set(eventId, event);
  }
  return event;
}

/** Title, time and venue of an event, and whether it is postponed or cancelled. */
export function About({ eventId }: { eventId: string }) {
  const [event, setEvent] = useState<SaleEvent>();
  useEffect(() => void eventOf(eventId).then(setEvent), [eventId]);
  return (
    <>
      <h3>
        <a href={`/events/${eventId}`}><bdi>{event?.title ?? eventId}</bdi></a>
      </h3>
      <p class="muted about">
        {event && <time dateTime={event.startsAt}>{formatEventTime(event.timeZone, event.startsAt)}</time>}
        {event?.venue && <> · <bdi>{event.venue}</bdi></>}
      </p>
      {event && <PostponedNotice event={event} />}
      {event?.status === "CANCELLED" && <SaleNotice status={event.status} event={event} />}
    </>
  );
}
