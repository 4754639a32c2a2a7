// A reward as text, on the page of its campaign and among the rewards of the visitor.

import { call } from "./api";
import { formatNumber } from "./format";
import { readOnce, useRead } from "./kept";
import { fill, strings } from "./page";
import type { Campaign, Reward, RewardStatus } from "./types";

const t = strings("reward");

export const readCampaign = (eventId: string, signal?: AbortSignal): Promise<Campaign> =>
  call<Campaign>("GET", `/rewards/${encodeURIComponent(eventId)}`, signal ? { signal } : {});

/** What a reward is worth. The number of a coupon has no separators. */
export function rewardText({ kind, value }: { kind: Reward["kind"]; value: number }): string {
  if (kind === "POINT" && value === 1) return t.onePoint;
  return fill(t[kind] ?? kind, { n: kind === "COUPON" ? value : formatNumber(value) });
}

/** Whether a payment is not certain yet. */
export const isUnpaid = (status: RewardStatus): boolean => status !== "SUCCESS" && status !== "CANCELLED";

export function StatusBadge({ status }: { status: RewardStatus }) {
  const tone = status === "SUCCESS" ? "good" : status === "FAILED" ? "bad" : "";
  return <p class={`badge ${tone}`}>{t[status] ?? status}</p>;
}

/** Rewards with their status. */
export function RewardList({ rewards }: { rewards: Reward[] }) {
  return (
    <ul class="plain rewards">
      {rewards.map((reward) => (
        <li class="row" key={reward.allocationId}>
          <span>
            {rewardText(reward)} <span class="muted">{t[reward.reason] ?? reward.reason}</span>
          </span>
          <StatusBadge status={reward.status} />
        </li>
      ))}
    </ul>
  );
}

const campaignOf = readOnce((eventId) => readCampaign(eventId));

/** The title of a campaign, as a link to its page. */
export function CampaignName({ eventId }: { eventId: string }) {
  const title = useRead(campaignOf, eventId)?.title ?? eventId;
  return <a href={`/rewards/${eventId}`}><bdi>{title}</bdi></a>;
}
