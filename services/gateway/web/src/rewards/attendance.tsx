// Attendance: today's button, the streak, the calendar and the bonuses.

import { fill, strings } from "../lib/page";
import { isUnpaid, RewardList, rewardText } from "../lib/reward";
import type { Campaign, Part } from "../lib/types";
import { Notice, useMainFocus } from "../lib/ui";
import { Action, SignIn } from "./action";
import { attend, rewardsOf, type State } from "./part";
import { nextBonus, streakText } from "./streak";

const t = strings("campaign");

export function AttendanceToday({ state, reload }: { state: State; reload: () => void }) {
  const { campaign, part } = state;
  const attended = part?.days.includes(part.today) ?? false;
  useMainFocus(attended);
  return (
    <section class="card enter" aria-labelledby="attendance">
      <h2 id="attendance">{t.attendance}</h2>
      {campaign.daily && <p>{fill(t.daily, { reward: rewardText(campaign.daily) })}</p>}
      {!part && <SignIn campaign={campaign} />}
      {part && <Streak campaign={campaign} part={part} attended={attended} />}
      {part && attended && (
        <Notice tone="good">
          <p>{t.attended}</p>
          {campaign.status === "OPEN" && <p>{t.again}</p>}
        </Notice>
      )}
      {part && (
        <Action
          possible={campaign.status === "OPEN" && !attended}
          label={t.attend}
          busyLabel={t.attending}
          send={() => attend(campaign.eventId)}
          done={reload}
        />
      )}
      {part && <TodaysRewards part={part} />}
    </section>
  );
}

function Streak({ campaign, part, attended }: { campaign: Campaign; part: Part; attended: boolean }) {
  const next = nextBonus(campaign.milestones, part.milestones, part.streak);
  const running = campaign.status === "OPEN" || campaign.status === "SCHEDULED";
  return (
    <>
      <p id="streak">{streakText(part.streak, attended || !running, t)}</p>
      {running && next && <p id="next-bonus">{fill(t.next, { day: next.day, n: next.toGo })}</p>}
    </>
  );
}

function TodaysRewards({ part }: { part: Part }) {
  const rewards = rewardsOf(part);
  if (rewards.length === 0) return null;
  return (
    <>
      <h3>{t.earned}</h3>
      <RewardList rewards={rewards} />
      <Payments part={part} />
    </>
  );
}

/** What the visitor has to know about payments that are not made yet. */
export function Payments({ part }: { part: Part }) {
  const unpaid = rewardsOf(part).filter((reward) => isUnpaid(reward.status));
  if (unpaid.length === 0) return null;
  return <p class="muted">{unpaid.some((reward) => reward.status === "FAILED") ? t.delayed : t.payout}</p>;
}

export function Milestones({ campaign, part }: { campaign: Campaign; part: Part | undefined }) {
  if (campaign.milestones.length === 0) return null;
  return (
    <section class="card" aria-labelledby="milestones">
      <h2 id="milestones">{t.milestones}</h2>
      <ul class="plain">
        {campaign.milestones.map((m) => (
          <li class="row" key={m.day}>
            <span>{fill(m.every ? t.every : t.milestone, { day: m.day })}</span>
            <span>{rewardText(m)}</span>
            {part?.milestones.includes(m.day) && <span class="badge good">{t.reached}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
