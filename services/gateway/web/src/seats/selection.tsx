// The chosen seats, their price, and the button to hold them.

import { formatMoney } from "../lib/format";
import { onward } from "../lib/onward";
import { fill, strings } from "../lib/page";
import { buyable, priceOf } from "../lib/sale";
import type { MapSeat, SaleEvent } from "../lib/types";
import { Failure } from "../lib/ui";

const t = strings("seats");
const common = strings("common");

interface SelectionProps {
  event: SaleEvent;
  seats: { index: number; seat: MapSeat }[];
  busy: boolean;
  failure: unknown;
  remove: (index: number) => void;
  hold: () => void;
}

export const seatName = (seat: MapSeat): string =>
  fill(common.seat, { section: seat.section, row: seat.row, number: seat.number });

export function Selection({ event, seats, busy, failure, remove, hold }: SelectionProps) {
  const total = seats.reduce((sum, s) => sum + priceOf(event, s.seat.section), 0);
  return (
    <section class="card selection" aria-labelledby="selection">
      <h2 id="selection" tabIndex={-1}>
        {t.selection}
      </h2>
      {seats.length === 0 && <p class="muted">{fill(t.empty, { n: event.maxPerUser })}</p>}
      <ul class="plain">
        {seats.map(({ index, seat }) => (
          <li key={index} class="row">
            <span>{seatName(seat)}</span>
            <span>{formatMoney(priceOf(event, seat.section), event.currency)}</span>
            <button
              type="button"
              class="quiet square"
              disabled={busy}
              aria-label={fill(t.remove, { seat: seatName(seat) })}
              onClick={() => {
                remove(index);
                // This button disappears, so the focus is moved.
                document.getElementById("selection")?.focus();
              }}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {seats.length > 0 && (
        <p class="sum">
          {common.total} <strong>{formatMoney(total, event.currency)}</strong>
        </p>
      )}
      {failure !== undefined && <Failure failure={failure} />}
      <button type="button" class="wide" disabled={busy || seats.length === 0 || !buyable(event)} onClick={hold}>
        {busy ? t.holding : t.hold}
      </button>
      <p>
        <a href={onward(`/events/${event.eventId}/book`)}>{t.best}</a>
      </p>
    </section>
  );
}
