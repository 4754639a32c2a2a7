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

export const placeText = (place: Place): string =>
  fill(t.status, { position: formatNumber(place.position), wait: waitText(place.estimatedWait, words) });

export function Figures({ waiting, leave }: { waiting: Waiting; leave: () => void }) {
  const { place, first, at } = waiting;
  const facts: [string, string][] = [
    [t.wait, waitText(place.estimatedWait, words)],
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
