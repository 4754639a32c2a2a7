// One month of a campaign with the days of attendance.

import { useState } from "preact/hooks";
import { page, strings } from "../lib/page";
import type { Campaign } from "../lib/types";
import { daysOf, monthAfter, monthOf, weeksOf } from "./calendar";

const t = strings("campaign");
const monthName = new Intl.DateTimeFormat(page.lang, { year: "numeric", month: "long", timeZone: "UTC" });
const shortName = new Intl.DateTimeFormat(page.lang, { weekday: "short", timeZone: "UTC" });
const longName = new Intl.DateTimeFormat(page.lang, { weekday: "long", timeZone: "UTC" });
// 2023-01-01 was a Sunday.
const weekdays = Array.from({ length: 7 }, (_, i) => new Date(Date.UTC(2023, 0, 1 + i)));

interface DayProps {
  day: string;
  attended: boolean;
  today: boolean;
  // Whether the day belongs to the campaign.
  open: boolean;
}

function Day({ day, attended, today, open }: DayProps) {
  const notes = [attended ? t.dayAttended : "", today ? t.dayToday : ""].filter(Boolean).join(", ");
  return (
    <td aria-current={today ? "date" : undefined}>
      <time dateTime={day} class={`day ${attended ? "attended" : ""} ${open ? "" : "outside"}`}>
        {Number(day.slice(8))}
        {notes && <span class="hidden"> ({notes})</span>}
      </time>
    </td>
  );
}

interface MonthButtonProps {
  text: string;
  // Whether the campaign has no such month.
  none: boolean;
  onClick: () => void;
}

/** A button to another month. It keeps the focus at the first and the last one, which `disabled` would take. */
function MonthButton({ text, none, onClick }: MonthButtonProps) {
  return (
    <button type="button" class="quiet" aria-disabled={none} onClick={() => !none && onClick()}>
      {text}
    </button>
  );
}

interface MonthProps {
  campaign: Campaign;
  days: string[];
  today: string;
}

export function Month({ campaign, days, today }: MonthProps) {
  const { first, last } = daysOf(campaign.opensAt, campaign.closesAt);
  const [chosen, setChosen] = useState<string>();
  // The present month, or that of the campaign nearest to it.
  const month = chosen ?? monthOf(today < first ? first : today > last ? last : today);
  const attended = new Set(days);
  return (
    <section class="card" aria-labelledby="calendar">
      <h2 id="calendar">{t.calendar}</h2>
      <table class="calendar">
        <caption aria-live="polite">{monthName.format(new Date(`${month}-01T00:00:00Z`))}</caption>
        <thead>
          <tr>
            {weekdays.map((day) => (
              <th scope="col" key={day.getTime()}>
                <abbr title={longName.format(day)}>{shortName.format(day)}</abbr>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weeksOf(month).map((week, i) => (
            <tr key={i}>
              {week.map((day, place) =>
                day === undefined ? (
                  <td key={place} />
                ) : (
                  <Day key={place} day={day} attended={attended.has(day)} today={day === today} open={day >= first && day <= last} />
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {monthOf(first) !== monthOf(last) && (
        <p class="actions">
          <MonthButton text={t.earlier} none={month <= monthOf(first)} onClick={() => setChosen(monthAfter(month, -1))} />
          <MonthButton text={t.later} none={month >= monthOf(last)} onClick={() => setChosen(monthAfter(month, 1))} />
        </p>
      )}
      <p class="muted">{t.calendarHelp}</p>
    </section>
  );
}
