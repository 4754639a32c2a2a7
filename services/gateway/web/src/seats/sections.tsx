// Choice of a section and of a number of tickets.

import { formatMoney, formatNumber } from "../lib/format";
import { fill, strings } from "../lib/page";
import { costOf } from "../lib/sale";
import type { Section } from "../lib/types";

const t = strings("sale");
const common = strings("common");

interface SectionsProps {
  sections: Section[];
  currency: string;
  chosen: string;
  choose: (section: string) => void;
}

/** Choice of a section, by its price and free places. */
export function Sections({ sections, currency, chosen, choose }: SectionsProps) {
  return (
    <fieldset>
      <legend>{t.section}</legend>
      {sections.map((s) => (
        <label class="choice" key={s.section}>
          <input
            type="radio"
            name="section"
            value={s.section}
            required
            disabled={s.free === 0}
            checked={chosen === s.section}
            onChange={() => choose(s.section)}
          />
          <span class="grow">{fill(common.section, { section: s.section })}</span>
          <span>{formatMoney(costOf(s), currency)}</span>
          <span class="muted">{s.free === 0 ? t.soldOut : fill(common.free, { n: formatNumber(s.free) })}</span>
        </label>
      ))}
    </fieldset>
  );
}

export function Quantity({ max, quantity, choose }: { max: number; quantity: number; choose: (quantity: number) => void }) {
  return (
    <>
      <label for="quantity">{t.quantity}</label>
      <select id="quantity" value={quantity} onChange={(e) => choose(Number(e.currentTarget.value))}>
        {Array.from({ length: Math.min(max, 100) }, (_, i) => (
          <option key={i} value={i + 1}>
            {i + 1}
          </option>
        ))}
      </select>
    </>
  );
}
