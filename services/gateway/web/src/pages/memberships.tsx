// Memberships: the plans and those of the visitor, or the purchase of one.

import { type MembershipBill, membershipSource } from "../checkout/bill";
import { open, readProviders, type Step } from "../checkout/payment";
import { ownOrReturned, untilSettled } from "../checkout/returned";
import { Payment, Progress, Stranger, useSteps } from "../checkout/steps";
import { useAction } from "../lib/action";
import { call, once } from "../lib/api";
import { formatMoney, formatTime } from "../lib/format";
import { hasSession } from "../lib/frame";
import { fill, pathPart, strings } from "../lib/page";
import { Paged } from "../lib/paged";
import { start } from "../lib/start";
import type { List, Membership, Plan } from "../lib/types";
import { Failure, NotLoaded, Notice, useLoad, useMainFocus } from "../lib/ui";

const t = strings("memberships");
const common = strings("common");

const membershipId = pathPart(1);

/** For how long, and for how much. */
const termsText = (months: number, amount: number, currency: string): string =>
  fill(t.terms, { months, price: amount === 0 ? t.free : formatMoney(amount, currency) });

/** The time of a paid membership; one that extends another begins later. */
const timeText = ({ startsAt = "", endsAt = "" }: Membership): string =>
  Date.parse(startsAt) > Date.now()
    ? fill(t.fromUntil, { from: formatTime(startsAt), until: formatTime(endsAt) })
    : fill(t.until, { until: formatTime(endsAt) });

interface Purchase {
  step: Step<MembershipBill>;
  providers: string[];
}

async function readPurchase(signal: AbortSignal): Promise<Purchase> {
  const step = await open(membershipSource(membershipId), signal);
  const providers = await readProviders(step.bill);
  return { step, providers };
}

const read = ownOrReturned(readPurchase);
const untilPaid = untilSettled();

function One() {
  const loaded = useLoad(read, (value) => ("step" in value ? undefined : untilPaid(value)));
  useMainFocus(loaded.state === "ready" && "step" in loaded.value);
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  if (!("step" in loaded.value)) return <Stranger returned={loaded.value} />;
  return (
    <>
      <Buying {...loaded.value} />
      <p>
        <a href="/memberships">{t.list}</a>
      </p>
    </>
  );
}

function Buying({ step: loaded, providers }: Purchase) {
  const payment = useSteps(loaded);
  const { step } = payment;
  const { membership } = step.bill;
  return (
    <div class="columns">
      <div>
        <Outcome step={step} />
        <Payment {...payment} providers={providers} />
      </div>
      <section class="card" aria-labelledby="plan">
        <h2 id="plan">
          <bdi>{membership.name}</bdi>
        </h2>
        <p>{termsText(membership.months, membership.amount, membership.currency)}</p>
      </section>
    </div>
  );
}

function Outcome({ step }: { step: Step<MembershipBill> }) {
  const { status, membership } = step.bill;
  switch (status) {
    case "HELD":
    case "PAYING":
      return <Progress step={step} />;
    case "CONFIRMED":
      return (
        <Notice tone={membership.status === "ACTIVE" ? "good" : "info"}>
          {membership.status === "ACTIVE" ? timeText(membership) : t[membership.status]}
        </Notice>
      );
    case "REJECTED":
      return <Notice tone="bad">{t.late}</Notice>;
    default:
      return <Notice tone="bad">{t.over}</Notice>;
  }
}

function PlanCard({ plan }: { plan: Plan }) {
  const { busy, failure, run } = useAction();
  const buy = () =>
    run(
      async () => {
        const bought = await once<Membership>("POST", "/memberships", { body: { planId: plan.planId } });
        location.assign(`/memberships/${bought.membershipId}`);
      },
      () => undefined,
    );
  return (
    <li class="card">
      <h3 id={plan.planId}>
        <bdi>{plan.name}</bdi>
      </h3>
      <p>{termsText(plan.months, plan.price, plan.currency)}</p>
      {failure !== undefined && <Failure failure={failure} />}
      <button type="button" disabled={busy} aria-describedby={plan.planId} onClick={buy}>
        {t.buy}
      </button>
    </li>
  );
}

function MembershipCard({ membership }: { membership: Membership }) {
  const { status } = membership;
  return (
    <li class="card">
      <p class={`badge ${status === "ACTIVE" ? "good" : ""}`}>{t[status]}</p>
      <h3>
        <bdi>{membership.name}</bdi>
      </h3>
      <p>{termsText(membership.months, membership.amount, membership.currency)}</p>
      {status === "ACTIVE" && <p>{timeText(membership)}</p>}
      {status === "PENDING" && (
        <p>
          <a class="button" href={`/memberships/${membership.membershipId}`}>
            {common.toPayment}
          </a>
        </p>
      )}
    </li>
  );
}

function All() {
  const plans = useLoad((signal) => call<List<Plan>>("GET", "/memberships/plans", { signal }));
  if (plans.state !== "ready") return <NotLoaded loaded={plans} />;
  return (
    <>
      <section aria-labelledby="plans">
        <h2 id="plans">{t.plans}</h2>
        {plans.value.items.length === 0 && <p class="card">{t.noPlans}</p>}
        <ul class="cards">
          {plans.value.items.map((plan) => (
            <PlanCard key={plan.planId} plan={plan} />
          ))}
        </ul>
        <p class="muted">{t.help}</p>
      </section>
      {hasSession() && (
        <section aria-labelledby="own">
          <h2 id="own">{t.own}</h2>
          <Paged<Membership>
            path="/my/memberships"
            none={t.none}
            item={(membership) => <MembershipCard key={membership.membershipId} membership={membership} />}
          />
        </section>
      )}
    </>
  );
}

start(membershipId ? One : All);
