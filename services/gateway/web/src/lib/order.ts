// Natural order of seats: A-2 before A-10.

import { page } from "./page";
import type { MapSeat, Ticket } from "./types";

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
