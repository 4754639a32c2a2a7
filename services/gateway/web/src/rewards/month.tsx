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

interface TurnProps {
  text: string;
  ends: boolean;
  onTurn: () => void;
}

/** A button to another month. One that is disabled would lose the focus at the campaign's last month. */
function Turn({ text, ends, onTurn }: TurnProps) {
  return (
    <button type="button" class="quiet" aria-disabled={ends} onClick={() => !ends && onTurn()}>
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
          <Turn text={t.earlier} ends={month <= monthOf(first)} onTurn={() => setChosen(monthAfter(month, -1))} />
          <Turn text={t.later} ends={month >= monthOf(last)} onTurn={() => setChosen(monthAfter(month, 1))} />
        </p>
      )}
      <p class="muted">{t.calendarHelp}</p>
    </section>
  );
}
