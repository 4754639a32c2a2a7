// Every page starts here.

import { type ComponentType, render } from "preact";
import { startFrame } from "./frame";

export function start(Page: ComponentType): void {
  startFrame();
  const app = document.getElementById("app");
  if (!app) throw new Error("the page has no place for its content");
  app.replaceChildren();
  render(<Page />, app);
}
