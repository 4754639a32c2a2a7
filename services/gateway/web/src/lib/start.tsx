// The start of every page.

import { type ComponentType, render } from "preact";
import { startFrame } from "./frame";
import { restoreFragment } from "./onward";

export function start(Page: ComponentType): void {
  restoreFragment();
  startFrame();
  const app = document.getElementById("app");
  if (!app) throw new Error("the page has no place for its content");
  // Reload a page restored by the back button: its holds and turns are outdated, and buttons may
  // still be disabled.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  app.replaceChildren();
  render(<Page />, app);
}
