// Position and name of every seat by index: in the order of the response.

import type { MapSeat, SeatMap } from "../lib/types";

interface Row {
  section: number;
  row: string;
  // Index of the first seat of the row, and the number of its seats.
  start: number;
  seats: number;
}

export interface Box {
  section: number;
  name: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

const none = -1;

export class Layout {
  readonly seats: number;
  // Size of the grid, in seats.
  readonly width: number;
  readonly height: number;
  readonly x: Int32Array;
  readonly y: Int32Array;
  readonly rows: Row[] = [];
  readonly boxes: Box[] = [];
  private readonly grid: Int32Array;
  private readonly bySeatId = new Map<string, Row>();

  constructor(private readonly map: SeatMap) {
    const rows = map.sections.flatMap((s) => s.rows);
    const left = Math.min(...rows.map((r) => r.x));
    const top = Math.min(...rows.map((r) => r.y));
    this.width = Math.max(...rows.map((r) => r.x + r.seats)) - left;
    this.height = Math.max(...rows.map((r) => r.y)) - top + 1;
    this.seats = rows.reduce((sum, r) => sum + r.seats, 0);
    this.x = new Int32Array(this.seats);
    this.y = new Int32Array(this.seats);
    this.grid = new Int32Array(this.width * this.height).fill(none);
    map.sections.forEach((section, s) => {
      for (const row of section.rows) this.addRow(s, section.section, row.row, row.seats, row.x - left, row.y - top);
      this.addBox(s, section.section, this.rows.filter((r) => r.section === s));
    });
  }

  get eventId(): string {
    return this.map.eventId;
  }

  /** The seat at a grid position, or -1. */
  at(x: number, y: number): number {
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return none;
    return this.grid[y * this.width + x] ?? none;
  }

  seat(index: number): MapSeat {
    const row = this.rowOf(index);
    const name = this.map.sections[row.section]?.section ?? "";
    const number = index - row.start + 1;
    return { seatId: `${name}-${row.row}-${number}`, section: name, row: row.row, number };
  }

  /** The index of a seat id, or -1. */
  indexOf(seatId: string): number {
    const dash = seatId.lastIndexOf("-");
    const row = this.bySeatId.get(seatId.slice(0, dash));
    const number = Number(seatId.slice(dash + 1));
    return row && number >= 1 && number <= row.seats ? row.start + number - 1 : none;
  }

  sectionRows(section: number): Row[] {
    return this.rows.filter((r) => r.section === section);
  }

  /** The nearest seat from `index` along the row, or in the next row that has seats. */
  next(index: number, dx: number, dy: number): number {
    const x = this.x[index] ?? 0;
    const y = this.y[index] ?? 0;
    if (dx !== 0) {
      for (let i = x + dx; i >= 0 && i < this.width; i += dx) if (this.at(i, y) !== none) return this.at(i, y);
      return index;
    }
    for (let j = y + dy; j >= 0 && j < this.height; j += dy) {
      for (let away = 0; away < this.width; away++) {
        const found = Math.max(this.at(x - away, j), this.at(x + away, j));
        if (found !== none) return found;
      }
    }
    return index;
  }

  private rowOf(index: number): Row {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.rows[middle]?.start ?? 0) <= index) low = middle;
      else high = middle - 1;
    }
    const row = this.rows[low];
    if (!row) throw new Error("the map has no rows");
    return row;
  }

  private addRow(section: number, name: string, row: string, seats: number, x: number, y: number): void {
    const last = this.rows[this.rows.length - 1];
    const start = last ? last.start + last.seats : 0;
    const added = { section, row, start, seats };
    this.rows.push(added);
    this.bySeatId.set(`${name}-${row}`, added);
    for (let n = 0; n < seats; n++) {
      this.x[start + n] = x + n;
      this.y[start + n] = y;
      this.grid[y * this.width + x + n] = start + n;
    }
  }

  private addBox(section: number, name: string, rows: Row[]): void {
    if (rows.length === 0) return;
    const xs = rows.map((r) => this.x[r.start] ?? 0);
    const ys = rows.map((r) => this.y[r.start] ?? 0);
    const right = Math.max(...rows.map((r, i) => (xs[i] ?? 0) + r.seats));
    const x = Math.min(...xs);
    const y = Math.min(...ys);
    this.boxes.push({ section, name, x, y, width: right - x, height: Math.max(...ys) - y + 1 });
  }
}

/** Unpacks the availability: one byte per seat, 1 when free. */
export function unpack(bitmap: string, seats: number): Uint8Array {
  const bytes = atob(bitmap);
  const free = new Uint8Array(seats);
  for (let i = 0; i < seats; i++) free[i] = (bytes.charCodeAt(i >> 3) >> (7 - (i & 7))) & 1;
  return free;
}
