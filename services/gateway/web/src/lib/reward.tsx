// A reward as text, on the page of its campaign and among the rewards of the visitor.

import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { formatNumber } from "./format";
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

const titles = new Map<string, Promise<string>>();

/** Reads the title of a campaign once; its id on failure. */
function titleOf(eventId: string): Promise<string> {
  let title = titles.get(eventId);
  if (!title) {
    title = readCampaign(eventId).then((campaign) => campaign.title, () => eventId);
    titles.set(eventId, title);
  }
  return title;
}

/** The title of a campaign, as a link to its page. */
export function CampaignName({ eventId }: { eventId: string }) {
  const [title, setTitle] = useState(eventId);
  useEffect(() => void titleOf(eventId).then(setTitle), [eventId]);
  return <a href={`/rewards/${eventId}`}><bdi>{title}</bdi></a>;
}
