// The sections without seats of an event that has both, beside the seat map.

import { useState } from "preact/hooks";
import { strings } from "../lib/page";
import { buyable } from "../lib/sale";
import type { SaleEvent, Section } from "../lib/types";
import { Quantity, Sections } from "./sections";

const t = strings("seats");

interface StandingProps {
  event: SaleEvent;
  sections: Section[];
  busy: boolean;
  hold: (section: string, quantity: number) => void;
}

export function Standing({ event, sections, busy, hold }: StandingProps) {
  const [selected, setSelected] = useState("");
  const [quantity, setQuantity] = useState(1);
  const left = sections.filter((s) => s.free > 0);
  // The selected section may be sold out by now.
  const section = left.find((s) => s.section === selected) ?? left[0];
  const submit = (submitted: SubmitEvent) => {
    submitted.preventDefault();
    if (section) hold(section.section, quantity);
  };
  return (
    <form class="card" aria-labelledby="standing" onSubmit={submit}>
      <h2 id="standing">{t.standing}</h2>
      <Sections sections={sections} currency={event.currency} chosen={section?.section ?? ""} choose={setSelected} />
      <Quantity max={event.maxPerUser} quantity={quantity} choose={setQuantity} />
      <button type="submit" class="wide" disabled={busy || !section || !buyable(event)}>
        {busy ? t.holding : t.hold}
      </button>
    </form>
  );
}
