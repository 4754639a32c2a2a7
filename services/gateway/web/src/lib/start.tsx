// Every page starts here.

import { type ComponentType, render } from "preact";
import { startFrame } from "./frame";

export function start(Page: ComponentType): void {
  startFrame();
  const app = document.getElementById("app");
  if (!app) throw new Error("the page has no place for its content");
  // A page that the browser kept and shows again by its back button is as it was left: its holds and turns are long
  // over, its buttons still busy.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  app.replaceChildren();
  render(<Page />, app);
}
