// An estimated wait as text. No imports of page data: the single-file page uses it too.

import type en from "../../../internal/web/lang/en.json";

/** Replaces {names} by values. */
export function fill(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : String(value);
  });
}

/** Formats an estimate, rounded up to minutes; one that is not known is being measured. */
export function waitText(seconds: number | undefined, words: typeof en.wait): string {
  if (seconds === undefined) return words.measuring;
  const m = Math.ceil(seconds / 60);
  if (seconds < 60) return words.soon;
  if (m < 60) return fill(words.minutes, { m });
  return fill(words.hours, { h: Math.floor(m / 60), m: m % 60 });
}
