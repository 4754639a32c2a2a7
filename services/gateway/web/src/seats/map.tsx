// The map with its buttons and the text about the seat at the cursor.

import { useEffect, useRef, useState } from "preact/hooks";
import { formatMoney } from "../lib/format";
import { strings } from "../lib/page";
import type { SaleEvent } from "../lib/types";
import { Chart } from "./chart";
import type { Layout } from "./layout";

const t = strings("seats");
// Whether the pointer is a finger, not a mouse.
const coarse = matchMedia("(pointer: coarse)").matches;

interface MapProps {
  event: SaleEvent;
  layout: Layout;
  free: Uint8Array | undefined;
  chosen: ReadonlySet<number>;
  pick: (index: number) => void;
  describe: (index: number) => string;
}

export function SeatMapView({ event, layout, free, chosen, pick, describe }: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const chart = useRef<Chart>(undefined);
  const [visited, setVisited] = useState<number>();
  // The chart keeps its handlers, so they have to use the latest state.
  const latest = useRef(pick);
  latest.current = pick;

  // The event lists its sections in the order of the map.
  const labels = event.sections.map((s) => `${s.section} · ${formatMoney(s.price, event.currency)}`);
  const shown = labels.join("\n");

  useEffect(() => {
    if (!canvas.current) return undefined;
    const made = new Chart(canvas.current, layout, labels, { pick: (i) => latest.current(i), visit: setVisited });
    chart.current = made;
    return () => made.close();
  }, [layout, shown]);
  useEffect(() => {
    if (free) chart.current?.show(free, chosen);
  }, [layout, shown, free, chosen]);

  return (
    <div class="map">
      <p class="stage" aria-hidden="true">
        {t.stage}
      </p>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={t.mapLabel}
        aria-describedby="map-help"
        style={{ aspectRatio: `${layout.width} / ${layout.height}` }}
      />
      <div class="actions">
        <button type="button" class="quiet square" aria-label={t.zoomIn} onClick={() => chart.current?.zoomIn()}>
          +
        </button>
        <button type="button" class="quiet square" aria-label={t.zoomOut} onClick={() => chart.current?.zoomOut()}>
          −
        </button>
        <button type="button" class="quiet" onClick={() => chart.current?.fit()}>
          {t.zoomAll}
        </button>
        <ul class="legend" aria-hidden="true">
          <li class="seat-free">{t.legendFree}</li>
          <li class="seat-chosen">{t.legendChosen}</li>
          <li class="seat-taken">{t.legendTaken}</li>
        </ul>
      </div>
      <p id="map-help" class="muted">
        {coarse ? t.mapTouch : t.mapHelp}
      </p>
      <p class="visited" role="status">
        {visited === undefined ? "" : describe(visited)}
      </p>
    </div>
  );
}
