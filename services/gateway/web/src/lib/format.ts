// Formats numbers, money and times in the language of the page.

import { four, none, three } from "../../../../../pkg/currency/iso4217.json";
import { fill, page, strings } from "./page";
import { ownZone } from "./zone";

const common = strings("common");
const number = new Intl.NumberFormat(page.lang);
const clockTime = new Intl.DateTimeFormat(page.lang, { timeStyle: "medium" });

export const formatNumber = (n: number): string => number.format(n);

/** A time in the time zone of the visitor: for what concerns the visitor only. */
export const formatTime = (time: string): string => ownZone().dateTime.format(new Date(time));

/** The time of day with seconds. */
export const formatClock = (time: number): string => clockTime.format(time);

/** How many minor units the major one of a currency has. */
export const unitOf = (currency: string): number => 10 ** digitsOf(currency);

/** The amount in the minor unit of what was typed in the major one; empty: 0. */
export const fromMajor = (typed: string, currency: string): number => Math.round(Number(typed) * unitOf(currency));

const currencyFormats = new Map<string, { format: Intl.NumberFormat; unit: number }>();

/** Digits of the minor unit by ISO 4217. Browsers have others for some currencies. */
function digitsOf(currency: string): number {
  if (none.includes(currency)) return 0;
  if (three.includes(currency)) return 3;
  return four.includes(currency) ? 4 : 2;
}

/** Formats an amount in the minor unit of the currency, such as 55000 KRW or 1999 USD (19.99). */
export function formatMoney(amount: number, currency: string): string {
  let c = currencyFormats.get(currency);
  if (!c) {
    const digits = digitsOf(currency);
    const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    c = { format: new Intl.NumberFormat(page.lang, { style: "currency", currency, ...fixed }), unit: unitOf(currency) };
    currencyFormats.set(currency, c);
  }
  return c.format.format(amount / c.unit);
}

/** Formats a duration. Seconds are rounded up, so that 0 means that it is over. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, Math.ceil(seconds));
  if (s < 60) return fill(common.seconds, { s });
  if (s < 3600) return fill(common.minutes, { m: Math.floor(s / 60), s: s % 60 });
  const h = Math.floor(s / 3600);
  if (h < 48) return fill(common.hours, { h, m: Math.floor((s % 3600) / 60) });
  return fill(common.days, { d: Math.floor(h / 24), h: h % 24 });
}
