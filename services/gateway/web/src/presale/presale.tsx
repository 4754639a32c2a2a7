// The presale of an event: who may buy then, whether the visitor may, and the form for a code.

import { useId } from "preact/hooks";
import { SignInLink, useAction } from "../lib/action";
import { call } from "../lib/api";
import { hasSession } from "../lib/frame";
import { fill, strings } from "../lib/page";
import type { MyEvent, Presale, SaleEvent } from "../lib/types";
import { Failure, Notice, useLoad } from "../lib/ui";
import { formatEventTime } from "../lib/zone";

const t = strings("presale");

/** When the presale opens, and who may buy then. */
export function PresaleTerms({ event, presale }: { event: SaleEvent; presale: Presale }) {
  const kinds = [
    presale.any.some((way) => way.planId) && t.forMembers,
    presale.any.some((way) => way.codeList) && t.forCodes,
    presale.any.some((way) => way.list) && t.forListed,
    presale.any.some((way) => way.claim) && t.forAccounts,
  ].filter(Boolean);
  return (
    <>
      {formatEventTime(event.timeZone, presale.opensAt)}
      <p class="muted">{fill(t.who, { who: kinds.join(" · ") })}</p>
      {presale.maxPerUser !== undefined && presale.maxPerUser < event.maxPerUser && (
        <p class="muted">{fill(t.limit, { n: presale.maxPerUser })}</p>
      )}
    </>
  );
}

/** Whether the visitor may buy in the presale, and what can be done for it. */
export function PresaleStanding({ event, presale }: { event: SaleEvent; presale: Presale }) {
  if (!hasSession()) return <SignInLink label={t.signIn} />;
  return <Standing eventId={event.eventId} presale={presale} />;
}

function Standing({ eventId, presale }: { eventId: string; presale: Presale }) {
  const path = `/events/${encodeURIComponent(eventId)}`;
  const mine = useLoad((signal) => call<MyEvent>("GET", `${path}/me`, { signal }));
  if (mine.state !== "ready") return mine.state === "failed" ? <Failure failure={mine.failure} retry={mine.reload} /> : null;
  if (mine.value.by) return <Notice tone="good">{t[mine.value.by]}</Notice>;
  return (
    <>
      <p>{t.notEntitled}</p>
      {presale.any.some((way) => way.codeList) && <CodeForm path={path} used={mine.reload} />}
    </>
  );
}

function CodeForm({ path, used }: { path: string; used: () => void }) {
  const { busy, failure, run } = useAction();
  const id = useId();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const code = String(new FormData(event.currentTarget as HTMLFormElement).get("code") ?? "");
    run(
      async () => {
        await call<void>("POST", `${path}/codes`, { body: { code } });
        used();
      },
      () => undefined,
    );
  };
  return (
    <form class="code" onSubmit={submit}>
      <label for={id}>{t.code}</label>
      <input
        id={id}
        name="code"
        required
        maxLength={64}
        autocomplete="off"
        autocapitalize="characters"
        spellcheck={false}
      />
      {failure !== undefined && <Failure failure={failure} />}
      <button type="submit" disabled={busy}>
        {t.use}
      </button>
    </form>
  );
}
