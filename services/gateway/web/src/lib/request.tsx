// A request to a promotion as text, on the page of its promotion and among the requests of the
// visitor.

import { useState } from "preact/hooks";
import { call } from "./api";
import { formatTime } from "./format";
import { readOnce, useRead } from "./kept";
import { fill, strings } from "./page";
import type { EventRequest, List, Promotion, StatusChange } from "./types";
import { NotLoaded, useLoad } from "./ui";

const t = strings("request");
const texts: Partial<Record<string, string>> = t;

export const promotionPath = (eventId: string): string => `/promotions/${encodeURIComponent(eventId)}`;

export const readPromotion = (eventId: string, signal?: AbortSignal): Promise<Promotion> =>
  call<Promotion>("GET", promotionPath(eventId), signal ? { signal } : {});

/** What became of a request so far. */
export function requestText(request: EventRequest): string {
  const { eventType, resultCode = "", status, uiPhase, uiResult } = request;
  switch (uiResult) {
    case "SUCCESS":
      return eventType === "LOTTERY" ? t.won : t.place;
    case "REJECTED":
      return texts[resultCode] ?? t.notAccepted;
    case "FAILED":
      return fill(t.failed, { code: request.errorCode ?? resultCode });
    default:
      return texts[uiPhase ?? status] ?? status;
  }
}

export function RequestBadge({ request }: { request: EventRequest }) {
  const tone = request.uiResult === "SUCCESS" ? "good" : request.uiResult === "FAILED" ? "bad" : "";
  return <p class={`badge ${tone}`}>{t[request.uiResult] ?? request.uiResult}</p>;
}

/** Whether no place is left, which never changes again. */
export const isSoldOut = (promotion: Promotion): boolean => promotion.remaining === 0;

/** The state of a promotion in a few words. */
export function promotionState(promotion: Promotion): string {
  if (promotion.status === "Open" && isSoldOut(promotion)) return t.soldOut;
  return promotion.status === "Open" && promotion.paused ? t.Paused : (t[promotion.status] ?? promotion.status);
}

/** The changes of a request's status, loaded when the visitor opens them. */
export function Timeline({ requestId }: { requestId: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t.timeline}</summary>
      {open && <Changes requestId={requestId} />}
    </details>
  );
}

function Changes({ requestId }: { requestId: string }) {
  const loaded = useLoad((signal) => call<List<StatusChange>>("GET", `/requests/${requestId}/timeline`, { signal }));
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  return (
    <ol class="steps">
      {loaded.value.items.map((change) => (
        <li key={change.occurredAt}>
          {texts[`step${change.toStatus}`] ?? change.toStatus}{" "}
          <time class="muted" dateTime={new Date(change.occurredAt).toISOString()}>
            {formatTime(new Date(change.occurredAt).toISOString())}
          </time>
        </li>
      ))}
    </ol>
  );
}

const promotionOf = readOnce((eventId) => readPromotion(eventId));

/** The title of a promotion, as a link to its page. */
export function PromotionName({ eventId }: { eventId: string }) {
  const title = useRead(promotionOf, eventId)?.title ?? eventId;
  return <a href={`/promo/${eventId}`}><bdi>{title}</bdi></a>;
}
