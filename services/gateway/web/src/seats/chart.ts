// The interactive seat map: move, zoom and select by mouse, touch and keyboard.

import type { Layout } from "./layout";
import { type Look, Painter, type View } from "./painter";

export interface ChartEvents {
  pick: (index: number) => void;
  // The keyboard cursor has moved to a seat.
  visit: (index: number) => void;
}

// A pointer that moved less than this has clicked, not dragged.
const clickPixels = 6;
const maxScale = 40;
const step = 1.5;
// Space for the name of the first section above its seats.
const labelPixels = 28;

interface Point {
  x: number;
  y: number;
}

export class Chart {
  private readonly painter: Painter;
  private readonly pointers = new Map<number, Point>();
  private readonly observer: ResizeObserver;
  private readonly stop = new AbortController();
  private view: View = { scale: 1, left: 0, top: 0 };
  private look: Look;
  private cursor = 0;
  private moved = 0;
  private frame = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly layout: Layout,
    // The labels of the sections.
    labels: string[],
    private readonly events: ChartEvents,
  ) {
    this.painter = new Painter(canvas, layout, labels);
    this.look = { free: new Uint8Array(layout.seats), chosen: new Set(), cursor: undefined };
    this.listen();
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(canvas);
  }

  close(): void {
    this.observer.disconnect();
    this.stop.abort();
    cancelAnimationFrame(this.frame);
  }

  show(free: Uint8Array, chosen: ReadonlySet<number>): void {
    this.look = { ...this.look, free, chosen };
    this.painter.colour(this.look);
    this.redraw();
  }

  /** Shows the whole map. */
  fit(): void {
    const { clientWidth, clientHeight } = this.canvas;
    this.canvas.width = Math.round(clientWidth * devicePixelRatio);
    this.canvas.height = Math.round(clientHeight * devicePixelRatio);
    this.view.scale = this.minScale();
    this.view.left = (clientWidth - this.layout.width * this.view.scale) / 2;
    this.view.top = (clientHeight + labelPixels - this.layout.height * this.view.scale) / 2;
    this.redraw();
  }

  zoomIn(): void {
    this.zoom(step, this.middle());
  }

  zoomOut(): void {
    this.zoom(1 / step, this.middle());
  }

  private minScale(): number {
    const { clientWidth, clientHeight } = this.canvas;
    return Math.min(maxScale, 0.94 * Math.min(clientWidth / this.layout.width, (clientHeight - labelPixels) / this.layout.height));
  }

  private middle(): Point {
    return { x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 };
  }

  private redraw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.painter.draw(this.view, this.look));
  }

  /** Zooms around a point. */
  private zoom(factor: number, at: Point): void {
    const scale = Math.min(maxScale, Math.max(this.minScale(), this.view.scale * factor));
    const real = scale / this.view.scale;
    this.view.left = at.x - (at.x - this.view.left) * real;
    this.view.top = at.y - (at.y - this.view.top) * real;
    this.view.scale = scale;
    this.move(0, 0);
  }

  /** Moves the map, but keeps a part of it visible. */
  private move(dx: number, dy: number): void {
    const { clientWidth, clientHeight } = this.canvas;
    const keep = 40;
    const { scale } = this.view;
    this.view.left = clamp(this.view.left + dx, keep - this.layout.width * scale, clientWidth - keep);
    this.view.top = clamp(this.view.top + dy, keep - this.layout.height * scale, clientHeight - keep);
    this.redraw();
  }

  private listen(): void {
    const { signal } = this.stop;
    const on = <K extends keyof HTMLElementEventMap>(name: K, handler: (event: HTMLElementEventMap[K]) => void) =>
      this.canvas.addEventListener(name, handler, { signal, passive: false });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.drag(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.point(event));
    });
    on("keydown", (event) => this.key(event));
    on("focus", () => this.setCursor(this.cursor));
    on("blur", () => this.setLook({ cursor: undefined }));
  }

  private setLook(part: Partial<Look>): void {
    this.look = { ...this.look, ...part };
    this.redraw();
  }

  /** The position of an event inside the canvas, without the border. */
  private point(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left - this.canvas.clientLeft, y: event.clientY - box.top - this.canvas.clientTop };
  }

  private down(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    if (this.pointers.size === 0) this.moved = 0;
    this.pointers.set(event.pointerId, this.point(event));
  }

  private drag(event: PointerEvent): void {
    const from = this.pointers.get(event.pointerId);
    if (!from) return;
    const to = this.point(event);
    this.pointers.set(event.pointerId, to);
    this.moved += Math.hypot(to.x - from.x, to.y - from.y);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const before = Math.hypot(from.x - other.x, from.y - other.y);
      const after = Math.hypot(to.x - other.x, to.y - other.y);
      if (before > 0) this.zoom(after / before, other);
    } else if (this.moved >= clickPixels) {
      this.move(to.x - from.x, to.y - from.y);
    }
  }

  private up(event: PointerEvent): void {
    const alone = this.pointers.size === 1;
    if (!this.pointers.delete(event.pointerId) || !alone || this.moved >= clickPixels) return;
    const { x, y } = this.point(event);
    const index = this.layout.at(
      Math.floor((x - this.view.left) / this.view.scale),
      Math.floor((y - this.view.top) / this.view.scale),
    );
    if (index < 0) return;
    this.cursor = index;
    // Small seats are hard to touch: the first touch zooms in, the next one selects.
    if (event.pointerType === "touch" && this.view.scale < 16) this.zoom(24 / this.view.scale, { x, y });
    else this.events.pick(index);
  }

  private key(event: KeyboardEvent): void {
    const arrows: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const arrow = arrows[event.key];
    if (arrow) this.setCursor(this.layout.next(this.cursor, ...arrow));
    else if (event.key === "Enter" || event.key === " ") this.events.pick(this.cursor);
    else if (event.key === "+" || event.key === "=") this.zoom(step, this.place(this.cursor));
    else if (event.key === "-") this.zoom(1 / step, this.place(this.cursor));
    else return;
    event.preventDefault();
  }

  private setCursor(index: number): void {
    this.cursor = index;
    this.setLook({ cursor: index });
    this.events.visit(index);
    // The map follows the cursor.
    const { x, y } = this.place(index);
    const { clientWidth, clientHeight } = this.canvas;
    const edge = Math.min(30, clientWidth / 4, clientHeight / 4);
    this.move(clamp(x, edge, clientWidth - edge) - x, clamp(y, edge, clientHeight - edge) - y);
  }

  private place(index: number): Point {
    const { scale, left, top } = this.view;
    return { x: left + ((this.layout.x[index] ?? 0) + 0.5) * scale, y: top + ((this.layout.y[index] ?? 0) + 0.5) * scale };
  }
}

const clamp = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value));
