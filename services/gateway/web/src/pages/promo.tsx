// A promotion: first come or lottery, and the visitor's own request.

import { useState } from "preact/hooks";
import { formatDuration, formatNumber, formatTime } from "../lib/format";
import { clock } from "../lib/pace";
import { fill, pathPart, strings } from "../lib/page";
import { isSoldOut, promotionState } from "../lib/request";
import { start } from "../lib/start";
import type { EventRequest, Promotion } from "../lib/types";
import { NotLoaded, Notice, useHeading, useLoad, useMainFocus } from "../lib/ui";
import { ownZone } from "../lib/zone";
import { Draw, In } from "../promo/draw";
import { Apply, Own } from "../promo/own";
import { type Application, applySpread, isLottery, readState, requestOf, type State, untilChange } from "../promo/state";

const t = strings("promo");
const eventId = pathPart(1);

/** Why nobody can apply at present. */
function Standing({ promotion }: { promotion: Promotion }) {
  const { eventType, paused, status } = promotion;
  const soldOut = status === "Open" && isSoldOut(promotion);
  if (status === "Open" && !paused && !soldOut) return null;
  const reason = soldOut ? t.soldOut : status === "Open" ? t.Paused : status === "Closed" && eventType === "LOTTERY" ? t.ClosedLottery : t[status];
  return (
    <Notice tone={status === "Void" ? "bad" : "info"}>
      <p>{reason ?? status}</p>
      {status === "Scheduled" && <In text={t.opensIn} end={Date.parse(promotion.opensAt)} />}
    </Notice>
  );
}

function Facts({ promotion }: { promotion: Promotion }) {
  const lottery = isLottery(promotion);
  const period = ownZone().dateTime.formatRange(new Date(promotion.opensAt), new Date(promotion.closesAt));
  return (
    <div>
      <p>{lottery ? t.howLottery : t.howFirst}</p>
      {applySpread(promotion) > 0 && <p>{fill(t.howSpread, { time: formatDuration(applySpread(promotion)) })}</p>}
      <dl class="facts">
        <div>
          <dt>{t.state}</dt>
          <dd>{promotionState(promotion)}</dd>
        </div>
        <div>
          <dt>{lottery ? t.winners : t.places}</dt>
          <dd>{formatNumber(promotion.capacityTotal)}</dd>
        </div>
        {promotion.remaining !== undefined && (
          <div>
            <dt>{t.left}</dt>
            <dd>{promotion.remaining > 100 ? fill(t.about, { n: formatNumber(promotion.remaining) }) : formatNumber(promotion.remaining)}</dd>
          </div>
        )}
        <div>
          <dt>{t.period}</dt>
          <dd>{period}</dd>
        </div>
        {promotion.announcedAt && (
          <div>
            <dt>{t.results}</dt>
            <dd>
              <time dateTime={promotion.announcedAt}>{formatTime(promotion.announcedAt)}</time>
            </dd>
          </div>
        )}
      </dl>
    </div>
  );
}

/** The latest request of the visitor: of an application just made, until the page has read it. */
function latest(state: State, application: Application | undefined): EventRequest | undefined {
  const { own, promotion } = state;
  const applied = application?.applied;
  return applied && applied.requestId !== own?.requestId ? requestOf(promotion, applied) : own;
}

function Yours({ state, reload }: { state: State; reload: () => void }) {
  const [application, setApplication] = useState<Application>();
  const { promotion, signedIn } = state;
  const own = latest(state, application);
  // The buttons to apply and to withdraw are gone once they have taken effect.
  useMainFocus(`${own?.requestId} ${own?.resultCode === "REJECTED_WITHDRAWN"}`);
  const done = (made: Application) => {
    setApplication(made);
    void clock.wait(made.advised || 1).then(reload);
  };
  // A request that failed or was withdrawn does not count.
  const mayApply = !own || own.uiResult === "FAILED" || own.resultCode === "REJECTED_WITHDRAWN";
  return (
    <section class="card enter" aria-labelledby="yours">
      <h2 id="yours">{t.yours}</h2>
      {own && <Own promotion={promotion} own={own} duplicate={application?.applied.duplicate ?? false} reload={reload} />}
      {!own && signedIn && <p>{(promotion.status === "Open" && !isSoldOut(promotion)) || promotion.status === "Scheduled" ? t.none : t.noneAnyMore}</p>}
      {own && mayApply && promotion.status === "Open" && !isSoldOut(promotion) && <p>{t.again}</p>}
      {mayApply && <Apply promotion={promotion} signedIn={signedIn} done={done} failed={reload} />}
    </section>
  );
}

function PromotionPage() {
  const loaded = useLoad((signal) => readState(eventId, signal), untilChange);
  useHeading(loaded.state === "ready" ? loaded.value.promotion.title : "");
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const { draw, own, promotion } = loaded.value;
  return (
    <>
      <Standing promotion={promotion} />
      <div class="columns event">
        <Facts promotion={promotion} />
        <Yours state={loaded.value} reload={loaded.reload} />
        {isLottery(promotion) && promotion.status !== "Void" && <Draw promotion={promotion} draw={draw} />}
      </div>
      {own && (
        <p>
          <a href="/my">{t.toMy}</a>
        </p>
      )}
    </>
  );
}

start(PromotionPage);
