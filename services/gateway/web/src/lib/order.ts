// The place of a ticket in words, and the natural order of seats: A-2 before A-10.

import { fill, page, strings } from "./page";
import type { MapSeat, Ticket } from "./types";

const common = strings("common");

/** The seat, or the section of general admission. */
export const placeOf = ({ seat, section }: { seat?: MapSeat; section: string }): string =>
  seat ? fill(common.seat, { section: seat.section, row: seat.row, number: seat.number }) : fill(common.section, { section });

const natural = new Intl.Collator(page.lang, { numeric: true });

export const bySeat = (a: MapSeat, b: MapSeat): number =>
  natural.compare(a.section, b.section) || natural.compare(a.row, b.row) || a.number - b.number;

/** Keeps the order of tickets, but groups those of a reservation and sorts them by seat. */
export function groupByReservation(tickets: Ticket[]): Ticket[] {
  const bookings = new Map<string, Ticket[]>();
  for (const ticket of tickets) {
    const booking = bookings.get(ticket.reservationId);
    if (booking) booking.push(ticket);
    else bookings.set(ticket.reservationId, [ticket]);
  }
  const bySeats = (a: Ticket, b: Ticket): number => (a.seat && b.seat ? bySeat(a.seat, b.seat) : 0);
  return [...bookings.values()].flatMap((booking) => booking.sort(bySeats));
}
