// The event of a reservation or a ticket.

import { readOnce, useRead } from "./kept";
import { PostponedNotice, readEvent, SaleNotice } from "./sale";
import { formatEventTime } from "./zone";

export const eventOf = readOnce((eventId) => readEvent(eventId));

/** Title, time and venue of an event, and whether it is postponed or cancelled. */
export function About({ eventId }: { eventId: string }) {
  const event = useRead(eventOf, eventId);
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
