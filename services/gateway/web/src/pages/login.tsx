// Sign-in with the identity provider, or by name in development.

import { useState } from "preact/hooks";
import { call } from "../lib/api";
import { clearTab } from "../lib/onward";
import { ownPath, page, strings } from "../lib/page";
import { start } from "../lib/start";
import { Failure, Notice } from "../lib/ui";

const t = strings("login");
const query = new URLSearchParams(location.search);
const returnTo = ownPath(query.get("returnTo"));

/** Why a sign-in is needed, depending on the previous page. */
function Reason() {
  const reasons: [RegExp, string][] = [
    [/^\/queue\//, t.toQueue],
    [/^\/events\/[^/]+\/(seats|book)$/, t.toChoice],
    [/^\/checkout\//, t.toCheckout],
    [/^\/rewards\//, t.toRewards],
    [/^\/promo\//, t.toPromotion],
    [/^\/orders\//, t.toOrder],
    [/^\/transfers(\/|$)/, t.toTransfers],
    [/^\/memberships(\/|$)/, t.toMemberships],
    [/^\/my$/, t.toMy],
    [/^\/check-in$/, t.toDoor],
    [/^\/admin\//, t.toOrders],
  ];
  const path = new URL(returnTo, location.origin).pathname;
  const reason = reasons.find(([pattern]) => pattern.test(path))?.[1];
  return reason ? <p class="lead reason">{reason}</p> : null;
}

/** What the gateway says of a sign-in that failed. */
function Failed() {
  const failures: Record<string, string> = {
    expired: t.failedExpired,
    refused: t.failedRefused,
    invalid: t.failedInvalid,
    unavailable: t.failedUnavailable,
  };
  const failure = failures[query.get("failed") ?? ""];
  return failure ? <Notice tone="bad">{failure}</Notice> : null;
}

function Provider() {
  return (
    <div class="card narrow">
      <p>{t.providerHelp}</p>
      <a
        class="button"
        id="provider"
        href={`/api/v1/auth/login?returnTo=${encodeURIComponent(returnTo)}`}
        onClick={() => clearTab(returnTo)}
      >
        {t.provider}
      </a>
    </div>
  );
}

function Development() {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setFailure(undefined);
    try {
      await call<unknown>("POST", "/auth/dev-login", {
        body: { userId: String(form.get("userId")), roles: form.getAll("roles").map(String) },
      });
      clearTab(returnTo);
      // Replaced, so that the back button does not return to this form.
      location.replace(returnTo);
    } catch (cause) {
      setFailure(cause);
      setBusy(false);
    }
  };
  return (
    <form class="card narrow" onSubmit={(event) => void submit(event)}>
      <Notice>{t.dev}</Notice>
      <label for="user">{t.user}</label>
      <input
        id="user"
        name="userId"
        required
        maxLength={63}
        pattern="[A-Za-z0-9._@+\-]+"
        title={t.pattern}
        autocomplete="username"
        autocapitalize="none"
        spellcheck={false}
        aria-describedby="user-help"
      />
      <p id="user-help" class="muted">
        {t.userHelp}
      </p>
      <fieldset>
        <legend>{t.roles}</legend>
        <label class="choice">
          <input type="checkbox" name="roles" value="admin" /> {t.admin}
        </label>
        <label class="choice">
          <input type="checkbox" name="roles" value="staff" /> {t.staff}
        </label>
      </fieldset>
      {failure !== undefined && <Failure failure={failure} />}
      <button type="submit" disabled={busy}>
        {t.submit}
      </button>
    </form>
  );
}

/** What is configured. */
function SignIn() {
  return (
    <>
      <Reason />
      <Failed />
      {page.provider && <Provider />}
      {page.devLogin && <Development />}
      {!page.provider && !page.devLogin && <Notice tone="bad">{t.nowhere}</Notice>}
    </>
  );
}

start(SignIn);
