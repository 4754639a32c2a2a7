// What a draw has published, step by step. Nothing shown here is verified.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { decidingRound, isoTime, statementOf, termsOf } from "../lib/drawn";
import { ofLobby } from "../lib/drawsource";
import type { DrawDocument } from "../lib/fairdraw";
import { networkOf } from "../lib/fairdraw/rounds";
import { formatNumber, formatTime } from "../lib/format";
import { fill, strings } from "../lib/page";

const t = strings("draw");
const common = strings("common");
const reasons: Partial<Record<string, string>> = strings("request");

const when = (ms: number | undefined): string => (isoTime(ms) ? formatTime(isoTime(ms)) : "");

function Value({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const Hash = ({ text }: { text: string }) => <code class="hash">{text}</code>;

function Step({ title, done, children }: { title: string; done: boolean; children: ComponentChildren }) {
  return (
    <li>
      <h3>
        {title} <span class={done ? "badge good" : "badge"}>{done ? t.published : t.toCome}</span>
      </h3>
      {children}
    </li>
  );
}

export function Steps({ draw }: { draw: DrawDocument }) {
  return (
    <section class="card" aria-labelledby="steps">
      <h2 id="steps">{ofLobby ? t.stepsLobby : t.steps}</h2>
      <p>{t.stepsHelp}</p>
      <ol class="steps">
        <Opening draw={draw} />
        <List draw={draw} />
        <Round draw={draw} />
        <Revealed draw={draw} />
      </ol>
    </section>
  );
}

function Opening({ draw }: { draw: DrawDocument }) {
  const terms = termsOf(draw);
  return (
    <Step title={t.terms} done>
      <p>{t.termsHelp}</p>
      <dl class="facts">
        {!ofLobby && <Value name={t.winnersCount}>{formatNumber(terms.winners ?? 0)}</Value>}
        <Value name={t.cutoff}>{when(terms.cutoffAt)}</Value>
        <Value name={t.announced}>{when(terms.announcedAt)}</Value>
      </dl>
      <details>
        <summary>{t.details}</summary>
        <dl>
          <Value name={t.commitmentHash}>
            <Hash text={draw.commitmentHash} />
          </Value>
          <Value name={t.commitment}>
            <Hash text={draw.commitment} />
          </Value>
        </dl>
      </details>
    </Step>
  );
}

function List({ draw }: { draw: DrawDocument }) {
  const statement = statementOf(draw);
  if (!draw.statement || !statement) {
    return (
      <Step title={t.list} done={false}>
        <p>{draw.phase === "CLOSED" ? t.listCounting : t.listHelp}</p>
      </Step>
    );
  }
  return (
    <Step title={t.list} done>
      <p>{t.listHelp}</p>
      <dl class="facts">
        <Value name={t.entries}>{formatNumber(statement.count ?? 0)}</Value>
        <Value name={t.excluded}>{formatNumber(statement.excludedCount ?? 0)}</Value>
        <Value name={t.claimed}>{when(statement.at)}</Value>
      </dl>
      <Excluded draw={draw} />
      <details>
        <summary>{t.details}</summary>
        <dl>
          <Value name={t.statement}>
            <Hash text={draw.statement.statement} />
          </Value>
          <Value name={t.signature}>
            <Hash text={draw.statement.signature} />
          </Value>
        </dl>
      </details>
    </Step>
  );
}

function Excluded({ draw }: { draw: DrawDocument }) {
  const counts = new Map<string, number>();
  for (const { reason } of draw.excluded ?? []) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  if (counts.size === 0) return null;
  return (
    <ul>
      {[...counts].map(([reason, n]) => (
        <li key={reason}>
          {reasons[`excluded${reason}`] ?? reason}: {formatNumber(n)}
        </li>
      ))}
    </ul>
  );
}

function Round({ draw }: { draw: DrawDocument }) {
  const deciding = decidingRound(draw);
  const missed = statementOf(draw)?.missedRounds ?? 0;
  const known = draw.beacon;
  const { beacon } = termsOf(draw);
  if (!deciding || !beacon) {
    return (
      <Step title={t.beacon} done={false}>
        <p class="notice bad">{t.noBeacon}</p>
      </Step>
    );
  }
  return (
    <Step title={t.beacon} done={Boolean(known)}>
      <p>{t.beaconHelp}</p>
      {networkOf(beacon) ? <p>{fill(t.network, { network: networkOf(beacon) })}</p> : <p class="notice bad">{common.trustsOwner}</p>}
      <p>{fill(known ? t.roundKnown : t.roundAt, { round: known?.round ?? deciding.round, time: when(deciding.at) })}</p>
      {missed > 0 && <p class="notice">{fill(t.missed, { n: missed })}</p>}
      <details>
        <summary>{t.details}</summary>
        <dl>
          <Value name={t.chain}>
            <Hash text={beacon.chainHash} />
          </Value>
          {known && (
            <Value name={t.value}>
              <Hash text={known.randomness} />
            </Value>
          )}
          {known && (
            <Value name={t.signature}>
              <Hash text={known.signature} />
            </Value>
          )}
        </dl>
      </details>
    </Step>
  );
}

function Revealed({ draw }: { draw: DrawDocument }) {
  const withheld = /^0{64}$/.test(draw.seed ?? "");
  return (
    <Step title={t.seed} done={Boolean(draw.seed)}>
      <p>{t.seedHelp}</p>
      {withheld && <p class="notice bad">{t.seedWithheld}</p>}
      {draw.seed && (
        <details>
          <summary>{t.details}</summary>
          <Hash text={draw.seed} />
        </details>
      )}
    </Step>
  );
}

const page = 50;

/** The winners; those whose receipt this browser has are marked. */
export function Result({ draw, own }: { draw: DrawDocument; own: string[] }) {
  const [shown, setShown] = useState(page);
  const winners = draw.winners ?? [];
  if (winners.length === 0) return null;
  return (
    <section class="card" aria-labelledby="winners">
      <h2 id="winners">{fill(t.winners, { n: formatNumber(winners.length) })}</h2>
      <p>{t.winnersHelp}</p>
      <ol class="winners">
        {winners.slice(0, shown).map((winner) => (
          <li key={winner}>
            <Hash text={winner} /> {own.includes(winner) && <span class="badge good">{t.yours}</span>}
          </li>
        ))}
      </ol>
      {winners.length > shown && (
        <button type="button" class="quiet" onClick={() => setShown(shown + 10 * page)}>
          {common.more}
        </button>
      )}
    </section>
  );
}

/** What no verification can show. */
export function Limits({ draw }: { draw: DrawDocument }) {
  const beacon = decidingRound(draw) !== undefined;
  return (
    <section class="card" aria-labelledby="limits">
      <h2 id="limits">{t.limits}</h2>
      <ul>
        {!beacon && <li>{t.limitBeacon}</li>}
        <li>{t.limitTime}</li>
        <li>{t.limitAccounts}</li>
        <li>{t.limitReceipt}</li>
        <li>{t.limitPage}</li>
      </ul>
    </section>
  );
}
