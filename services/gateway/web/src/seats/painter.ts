// Draws the seats as one pixel each on an off-screen canvas, which is scaled onto the visible one.
// Drawing 50,000 rectangles would take a whole frame each time; scaling one picture is cheap.

import type { Layout } from "./layout";

export interface View {
  // Pixels per seat, and the position of the grid, in CSS pixels.
  scale: number;
  left: number;
  top: number;
}

export interface Look {
  free: Uint8Array;
  chosen: ReadonlySet<number>;
  // The seat at the keyboard cursor, while the map has the focus.
  cursor: number | undefined;
}

// From this scale on seats are separated by gaps, and from the next one on they show their number.
const gapScale = 6;
const numberScale = 22;

type Colour = [number, number, number];

export class Painter {
  private readonly picture = document.createElement("canvas");
  private readonly pixels: ImageData;
  private readonly colours: Record<"free" | "taken" | "chosen", Colour>;
  private readonly ink: string;
  private readonly paper: string;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly layout: Layout,
    private readonly labels: string[],
  ) {
    this.picture.width = layout.width;
    this.picture.height = layout.height;
    this.pixels = new ImageData(layout.width, layout.height);
    const style = getComputedStyle(canvas);
    this.colours = {
      free: parse(style.getPropertyValue("--seat-free")),
      taken: parse(style.getPropertyValue("--seat-taken")),
      chosen: parse(style.getPropertyValue("--seat-chosen")),
    };
    this.ink = style.getPropertyValue("--ink");
    this.paper = style.getPropertyValue("--card");
  }

  /** Updates the colours of all seats; call draw afterwards. */
  colour({ free, chosen }: Look): void {
    const { data } = this.pixels;
    const { x, y, width, seats } = this.layout;
    for (let i = 0; i < seats; i++) {
      const [r, g, b] = chosen.has(i) ? this.colours.chosen : free[i] ? this.colours.free : this.colours.taken;
      const at = ((y[i] ?? 0) * width + (x[i] ?? 0)) * 4;
      data[at] = r;
      data[at + 1] = g;
      data[at + 2] = b;
      data[at + 3] = 255;
    }
    this.picture.getContext("2d")?.putImageData(this.pixels, 0, 0);
  }

  draw(view: View, look: Look): void {
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const ratio = devicePixelRatio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = false;
    const { width, height } = this.layout;
    context.drawImage(this.picture, view.left, view.top, width * view.scale, height * view.scale);
    if (view.scale >= gapScale) this.gaps(context, view);
    if (view.scale >= numberScale) this.numbers(context, view, look);
    this.names(context, view);
    if (look.cursor !== undefined) this.cursor(context, view, look.cursor);
  }

  /** The visible part of the grid. */
  private visibleRange(view: View): { x0: number; y0: number; x1: number; y1: number } {
    const { width, height } = this.layout;
    const ratio = devicePixelRatio;
    return {
      x0: Math.max(0, Math.floor(-view.left / view.scale)),
      y0: Math.max(0, Math.floor(-view.top / view.scale)),
      x1: Math.min(width, Math.ceil((this.canvas.width / ratio - view.left) / view.scale)),
      y1: Math.min(height, Math.ceil((this.canvas.height / ratio - view.top) / view.scale)),
    };
  }

  private gaps(context: CanvasRenderingContext2D, view: View): void {
    const { x0, y0, x1, y1 } = this.visibleRange(view);
    const gap = Math.max(1, view.scale * 0.14);
    context.strokeStyle = this.paper;
    context.lineWidth = gap;
    context.beginPath();
    for (let x = x0; x <= x1; x++) {
      context.moveTo(view.left + x * view.scale, view.top + y0 * view.scale);
      context.lineTo(view.left + x * view.scale, view.top + y1 * view.scale);
    }
    for (let y = y0; y <= y1; y++) {
      context.moveTo(view.left + x0 * view.scale, view.top + y * view.scale);
      context.lineTo(view.left + x1 * view.scale, view.top + y * view.scale);
    }
    context.stroke();
  }

  private numbers(context: CanvasRenderingContext2D, view: View, look: Look): void {
    const { x0, y0, x1, y1 } = this.visibleRange(view);
    context.font = `${Math.min(13, view.scale * 0.42)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let y = y0; y < y1; y++) {
      for (let x = x0; x < x1; x++) {
        const index = this.layout.at(x, y);
        if (index < 0) continue;
        context.fillStyle = look.free[index] || look.chosen.has(index) ? this.paper : this.ink;
        const text = String(this.layout.seat(index).number);
        context.fillText(text, view.left + (x + 0.5) * view.scale, view.top + (y + 0.5) * view.scale);
      }
    }
  }

  /**
   * The name and price of each section: above its first row, or in its middle while seats are too
   * small to read.
   */
  private names(context: CanvasRenderingContext2D, view: View): void {
    context.font = "600 14px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 5;
    context.lineJoin = "round";
    context.strokeStyle = this.paper;
    context.fillStyle = this.ink;
    for (const box of this.layout.boxes) {
      const full = this.labels[box.section] ?? box.name;
      const width = box.width * view.scale;
      // A narrow block shows its name only; the list below the map has its price.
      const text = context.measureText(full).width <= Math.max(width, 60) ? full : box.name;
      const x = view.left + (box.x + box.width / 2) * view.scale;
      const y = view.top + box.y * view.scale;
      const at = view.scale >= numberScale ? y - 14 : y + (box.height * view.scale) / 2;
      context.strokeText(text, x, at);
      context.fillText(text, x, at);
    }
  }

  private cursor(context: CanvasRenderingContext2D, view: View, index: number): void {
    const size = Math.max(view.scale, 6);
    const x = view.left + ((this.layout.x[index] ?? 0) + 0.5) * view.scale - size / 2;
    const y = view.top + ((this.layout.y[index] ?? 0) + 0.5) * view.scale - size / 2;
    context.lineWidth = 5;
    context.strokeStyle = this.paper;
    context.strokeRect(x - 1, y - 1, size + 2, size + 2);
    context.lineWidth = 2.5;
    context.strokeStyle = this.ink;
    context.strokeRect(x - 1, y - 1, size + 2, size + 2);
  }
}

function parse(colour: string): Colour {
  const hex = colour.trim().replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)) as Colour;
}
