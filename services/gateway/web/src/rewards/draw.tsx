// Draws: the button with its result, the prizes, and what the visitor has drawn.

import { useState } from "preact/hooks";
import { formatNumber } from "../lib/format";
import { fill, strings } from "../lib/page";
import { RewardList } from "../lib/reward";
import type { Campaign, Entry, Part, Prize } from "../lib/types";
import { Notice, useMainFocus } from "../lib/ui";
import { Action, SignIn } from "./action";
import { Payments } from "./attendance";
import { draw, type State } from "./part";

const t = strings("campaign");

const isGone = (prize: Prize): boolean => prize.stock === 0;

function resultText({ prize }: Entry): string {
  if (!prize) return t.allGone;
  return fill(prize.kind === "NONE" ? t.blank : t.won, { prize: prize.name });
}

function Result({ entry }: { entry: Entry }) {
  const won = entry.prize && entry.prize.kind !== "NONE";
  return (
    <Notice tone={won ? "good" : "info"}>
      <p>{resultText(entry)}</p>
      {entry.repeated && <p>{t.repeated}</p>}
    </Notice>
  );
}

export function DrawNow({ state, reload }: { state: State; reload: () => void }) {
  const { campaign, part } = state;
  const [result, setResult] = useState<Entry>();
  const gone = campaign.prizes.every(isGone);
  const open = campaign.status === "OPEN";
  const possible = open && !gone && (part?.drawsLeft ?? 0) > 0;
  useMainFocus(open && !possible);
  const done = (entry?: Entry) => {
    setResult(entry);
    reload();
  };
  return (
    <section class="card enter" aria-labelledby="draw">
      <h2 id="draw">{t.draw}</h2>
      {result && <Result entry={result} />}
      {gone && <Notice>{t.gone}</Notice>}
      {!part && <SignIn campaign={campaign} />}
      {part && open && <p id="draws-left">{part.drawsLeft > 0 ? fill(t.left, { n: formatNumber(part.drawsLeft) }) : t.usedUp}</p>}
      {part && open && part.drawsLeft === 0 && campaign.period === "DAY" && <p class="muted">{t.tomorrow}</p>}
      {part && <Action possible={possible} label={t.drawNow} busyLabel={t.drawing} send={() => draw(campaign.eventId)} done={done} />}
    </section>
  );
}

export function Prizes({ campaign }: { campaign: Campaign }) {
  const left = ({ stock }: Prize): string => {
    if (stock === undefined) return t.unlimited;
    return stock === 0 ? t.noStock : formatNumber(stock);
  };
  return (
    <section class="card" aria-labelledby="prizes">
      <h2 id="prizes">{t.prizes}</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">{t.prize}</th>
            <th scope="col" class="number">
              {t.stock}
            </th>
          </tr>
        </thead>
        <tbody>
          {campaign.prizes.map((prize) => (
            <tr key={prize.name}>
              <th scope="row" dir="auto">{prize.name}</th>
              <td class="number">{left(prize)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export function Results({ part }: { part: Part }) {
  const entries = part.entries;
  return (
    <section class="card" aria-labelledby="results">
      <h2 id="results">{t.results}</h2>
      {entries.length === 0 && <p>{t.noResults}</p>}
      <ul class="plain">
        {entries.map((entry) => (
          <li key={entry.entryId}>
            {resultText(entry)}
            <RewardList rewards={entry.rewards} />
          </li>
        ))}
      </ul>
      <Payments part={part} />
    </section>
  );
}
