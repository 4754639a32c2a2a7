// A campaign: attendance, draws, or the rewards of winners.

import { fill, pathPart, strings } from "../lib/page";
import { RewardList, rewardText } from "../lib/reward";
import { start } from "../lib/start";
import type { Campaign } from "../lib/types";
import { Countdown, NotLoaded, Notice, useHeading, useLoad } from "../lib/ui";
import { formatEventTimes } from "../lib/zone";
import { AttendanceToday, Milestones, Payments } from "../rewards/attendance";
import { SignIn } from "../rewards/action";
import { dayAt } from "../rewards/calendar";
import { DrawNow, Prizes, Results } from "../rewards/draw";
import { Month } from "../rewards/month";
import { readState, rewardsOf, type State, untilChange } from "../rewards/part";
import { serverNow } from "../lib/now";

const t = strings("campaign");
const eventId = pathPart(1);

// Campaigns count days in Korea.
const zone = "Asia/Seoul";

function Standing({ campaign }: { campaign: Campaign }) {
  if (campaign.status === "OPEN") return null;
  const [before, after = ""] = t.opensIn.split("{time}");
  return (
    <Notice tone={campaign.status === "CANCELLED" ? "bad" : "info"}>
      <p>{t[campaign.status] ?? campaign.status}</p>
      {campaign.status === "SCHEDULED" && (
        <p>
          {before}
          <Countdown end={Date.parse(campaign.opensAt)} />
          {after}
        </p>
      )}
    </Notice>
  );
}

function Facts({ campaign }: { campaign: Campaign }) {
  return (
    <dl class="facts">
      <div>
        <dt>{t.period}</dt>
        <dd>{formatEventTimes(zone, campaign.opensAt, campaign.closesAt)}</dd>
      </div>
    </dl>
  );
}

function Winners({ state: { campaign, part } }: { state: State }) {
  const rewards = rewardsOf(part);
  return (
    <section class="card enter" aria-labelledby="winners">
      <h2 id="winners">{t.winners}</h2>
      <p>{t.winnersHelp}</p>
      {campaign.daily && <p>{fill(t.each, { reward: rewardText(campaign.daily) })}</p>}
      {!part && <SignIn campaign={campaign} />}
      {part && <h3>{t.wins}</h3>}
      {part && rewards.length === 0 && <p>{t.noWins}</p>}
      <RewardList rewards={rewards} />
      {part && <Payments part={part} />}
    </section>
  );
}

function Kind({ state, reload }: { state: State; reload: () => void }) {
  const { campaign, part } = state;
  switch (campaign.kind) {
    case "ATTENDANCE":
      return (
        <>
          <AttendanceToday state={state} reload={reload} />
          <div>
            <Month campaign={campaign} days={part?.days ?? []} today={part?.today ?? dayAt(serverNow())} />
            <Milestones campaign={campaign} part={part} />
          </div>
        </>
      );
    case "RANDOM":
      return (
        <>
          <DrawNow state={state} reload={reload} />
          <div>
            <Prizes campaign={campaign} />
            {part && <Results part={part} />}
          </div>
        </>
      );
    default:
      return <Winners state={state} />;
  }
}

function CampaignPage() {
  const loaded = useLoad((signal) => readState(eventId, signal), untilChange);
  useHeading(loaded.state === "ready" ? loaded.value.campaign.title : "");
  if (loaded.state !== "ready") return <NotLoaded loaded={loaded} />;
  const { campaign, part } = loaded.value;
  return (
    <>
      <Standing campaign={campaign} />
      <div class="columns event">
        <Facts campaign={campaign} />
        <Kind state={loaded.value} reload={loaded.reload} />
      </div>
      {part && (
        <p>
          <a href="/my">{t.toMy}</a>
        </p>
      )}
    </>
  );
}

start(CampaignPage);
