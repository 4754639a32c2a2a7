// The seats as a list: a section, a row, and its seats as checkboxes.

import { useState } from "preact/hooks";
import { formatMoney, formatNumber } from "../lib/format";
import { fill, strings } from "../lib/page";
import { priceOf } from "../lib/sale";
import type { SaleEvent, SeatMap } from "../lib/types";
import { Loading } from "../lib/ui";
import type { Layout } from "./layout";

const t = strings("seats");

interface ListProps {
  event: SaleEvent;
  map: SeatMap;
  layout: Layout;
  free: Uint8Array | undefined;
  chosen: ReadonlySet<number>;
  pick: (index: number) => void;
}

function countFree(free: Uint8Array, start: number, seats: number): number {
  let n = 0;
  for (let i = start; i < start + seats; i++) n += free[i] ?? 0;
  return n;
}

export function SeatList({ event, map, layout, free, chosen, pick }: ListProps) {
  const [section, setSection] = useState(0);
  const [wanted, setRow] = useState(0);
  const rows = layout.sectionRows(section);
  const row = rows[Math.min(wanted, rows.length - 1)];
  if (!free) return <Loading />;
  return (
    <section class="card list" aria-labelledby="list">
      <h2 id="list">{t.listTitle}</h2>
      <div class="pair">
        <div>
          <label for="section">{t.section}</label>
          <select id="section" value={section} onChange={(e) => {
              setSection(Number(e.currentTarget.value));
              setRow(0);
            }}>
            {map.sections.map((s, i) => {
              const n = layout.sectionRows(i).reduce((sum, r) => sum + countFree(free, r.start, r.seats), 0);
              const name = { section: s.section, price: formatMoney(priceOf(event, s.section), event.currency), n: formatNumber(n) };
              return (
                <option key={s.section} value={i}>
                  {fill(t.sectionFree, name)}
                </option>
              );
            })}
          </select>
        </div>
        <div>
          <label for="row">{t.row}</label>
          <select id="row" value={wanted} onChange={(e) => setRow(Number(e.currentTarget.value))}>
            {rows.map((r, i) => (
              <option key={r.row} value={i}>
                {fill(t.rowFree, { row: r.row, n: countFree(free, r.start, r.seats) })}
              </option>
            ))}
          </select>
        </div>
      </div>
      {row && (
        <ul class="seat-row" aria-label={fill(t.rowFree, { row: row.row, n: countFree(free, row.start, row.seats) })}>
          {Array.from({ length: row.seats }, (_, i) => row.start + i).map((index) => (
            <li key={index}>
              <label class={chosen.has(index) ? "seat chosen" : "seat"}>
                <input
                  type="checkbox"
                  checked={chosen.has(index)}
                  disabled={!free[index] && !chosen.has(index)}
                  aria-label={fill(t.seatNumber, { number: index - row.start + 1 })}
                  onClick={(event) => {
                    // The choice decides, not the checkbox: beyond the limit it stays unchecked.
                    event.preventDefault();
                    setTimeout(() => pick(index));
                  }}
                />
                <span aria-hidden="true">{index - row.start + 1}</span>
              </label>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
