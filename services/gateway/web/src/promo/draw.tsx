// How far the draw of a lottery is.

import { decidingRound, isoTime, statementOf, termsOf } from "../lib/drawn";
import type { DrawDocument } from "../lib/fairdraw";
import { networkOf } from "../lib/fairdraw/rounds";
import { formatNumber, formatTime } from "../lib/format";
import { serverNow } from "../lib/now";
import { fill, strings } from "../lib/page";
import type { Promotion } from "../lib/types";
import { Countdown } from "../lib/ui";

const t = strings("promo");

/** A sentence with a countdown in place of {time}. */
export function In({ text, end }: { text: string; end: number }) {
  const [before, after = ""] = text.split("{time}");
  return (
    <p>
      {before}
      <Countdown end={end} />
      {after}
    </p>
  );
}

function Progress({ draw }: { draw: DrawDocument }) {
  const statement = statementOf(draw);
  if (!statement) return <p>{t.counting}</p>;
  const round = decidingRound(draw);
  const known = draw.beacon ?? undefined;
  return (
    <>
      <p>{fill(t.fixed, { n: formatNumber(statement.count ?? 0) })}</p>
      {!round && <p>{t.noBeacon}</p>}
      {round && !known && <p>{fill(t.roundAt, { round: round.round, time: formatTime(isoTime(round.at)) })}</p>}
      {round && !known && round.at > serverNow() && <In text={t.roundIn} end={round.at} />}
      {round && known && <p>{fill(t.roundKnown, { round: known.round })}</p>}
    </>
  );
}

export function Draw({ promotion, draw }: { promotion: Promotion; draw: DrawDocument | undefined }) {
  const announced = Date.parse(promotion.announcedAt ?? "");
  const closed = promotion.status === "Closed";
  const beacon = draw && termsOf(draw).beacon;
  return (
    <section class="card" aria-labelledby="draw">
      <h2 id="draw">{t.draw}</h2>
      <p>{t.drawHelp}</p>
      {beacon && !networkOf(beacon) && <p class="notice bad">{strings("common").trustsOwner}</p>}
      {closed && draw && <Progress draw={draw} />}
      {closed && (announced > serverNow() ? <In text={t.resultsIn} end={announced} /> : <p>{t.resultsSoon}</p>)}
      <p>
        <a href={`/draws/${promotion.eventId}`}>{promotion.status === "Announced" ? t.toResult : t.toDraw}</a>
      </p>
    </section>
  );
}
