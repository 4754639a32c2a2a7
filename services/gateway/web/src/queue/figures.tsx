// The place in the line as numbers and text.

import { formatClock, formatNumber } from "../lib/format";
import { fill, strings } from "../lib/page";
import type { Place } from "../lib/types";
import { waitText } from "../lib/wait";

const t = strings("queue");
const words = strings("wait");

export interface Waiting {
  place: Place;
  // The place from which progress is measured.
  first: number;
  // The time of the response, epoch milliseconds.
  at: number;
}

/** The estimated wait as text; undefined if it is not known since nobody is let in, which a notice says. */
export function waitOf(place: Place): string | undefined {
  const selling = !place.saleStatus || place.saleStatus === "ON_SALE" || (place.saleStatus === "PRESALE" && place.entitled);
  const halted = place.paused || place.threshold === 0 || !selling;
  return halted && place.estimatedWait === undefined ? undefined : waitText(place.estimatedWait, words);
}

export function placeText(place: Place): string {
  const wait = waitOf(place);
  const position = formatNumber(place.position);
  return wait === undefined ? fill(t.statusHalted, { position }) : fill(t.status, { position, wait });
}

export function Figures({ waiting, leave }: { waiting: Waiting; leave: () => void }) {
  const { place, first, at } = waiting;
  const wait = waitOf(place);
  const facts: [string, string][] = [
    ...(wait === undefined ? [] : [[t.wait, wait] satisfies [string, string]]),
    [t.ahead, formatNumber(place.peopleAhead)],
    [t.behind, formatNumber(place.peopleBehind)],
    [t.inside, fill(t.insideValue, { n: formatNumber(place.currentUsers), max: formatNumber(place.threshold) })],
  ];
  return (
    <>
      {place.artistName && <p class="lead" dir="auto">{place.artistName}</p>}
      <p class="big">
        <span class="label">{t.position}</span>
        <strong id="position">{formatNumber(place.position)}</strong>
      </p>
      <progress max={first} value={first - place.peopleAhead} aria-label={t.progress} />
      <dl class="figures">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p class="muted">
        {t.keep} <span class="updated">{fill(words.updated, { time: formatClock(at) })}</span>
      </p>
      <p>
        <button type="button" class="quiet" onClick={leave}>
          {t.leave}
        </button>
      </p>
    </>
  );
}
