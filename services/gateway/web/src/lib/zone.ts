// Times of an event, in the time zone of its venue and, if it differs, in that of the visitor.

import { fill, page, strings } from "./page";

const common = strings("common");

interface Zone {
  dateTime: Intl.DateTimeFormat;
  offset: Intl.DateTimeFormat;
  name: Intl.DateTimeFormat;
}

/** The formats of a zone; undefined is that of the visitor. Throws RangeError if it is unknown. */
function newZone(timeZone: string | undefined): Zone {
  const inZone = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat(page.lang, timeZone === undefined ? options : { ...options, timeZone });
  return {
    dateTime: inZone({
      year: "numeric",
      month: "short",
      day: "numeric",
      weekday: "short",
      hour: "numeric",
      minute: "2-digit",
      timeZoneName: "short",
    }),
    offset: inZone({ timeZoneName: "longOffset" }),
    name: inZone({ timeZoneName: "long" }),
  };
}

const zones = new Map<string, Zone>();
let own: Zone | undefined;

export const ownZone = (): Zone => (own ??= newZone(undefined));

/** The zone of an event; that of the visitor if the server or the browser does not know it. */
function zoneOf(timeZone: string | undefined): Zone {
  if (!timeZone) return ownZone();
  let zone = zones.get(timeZone);
  if (!zone) {
    try {
      zone = newZone(timeZone);
    } catch {
      zone = ownZone();
    }
    zones.set(timeZone, zone);
  }
  return zone;
}

const zonePart = (format: Intl.DateTimeFormat, time: Date): string =>
  format.formatToParts(time).find((part) => part.type === "timeZoneName")?.value ?? "";

/** Whether clocks in the zone of the event and in that of the visitor show the same at a time. */
const sameClock = (zone: Zone, time: Date): boolean => zonePart(zone.offset, time) === zonePart(ownZone().offset, time);

/** Whether times of an event in this zone can only be shown in that of the visitor. */
export const zoneUnknown = (timeZone: string | undefined): boolean => zoneOf(timeZone) === ownZone();

/** The name of the zone in which times of an event are shown; it differs in summer. */
export const zoneName = (timeZone: string | undefined, time: string): string => zonePart(zoneOf(timeZone).name, new Date(time));

/** A time in the zone of the event, followed by that of the visitor if clocks differ. */
export function formatEventTime(timeZone: string | undefined, time: string): string {
  const zone = zoneOf(timeZone);
  const at = new Date(time);
  const there = zone.dateTime.format(at);
  return sameClock(zone, at) ? there : fill(common.bothTimes, { there, here: ownZone().dateTime.format(at) });
}

/** A span of time in the same form. */
export function formatEventTimes(timeZone: string | undefined, from: string, to: string): string {
  const zone = zoneOf(timeZone);
  const [start, end] = [new Date(from), new Date(to)];
  const there = zone.dateTime.formatRange(start, end);
  if (sameClock(zone, start) && sameClock(zone, end)) return there;
  return fill(common.bothTimes, { there, here: ownZone().dateTime.formatRange(start, end) });
}
