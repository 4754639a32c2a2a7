// The number of the waiting room for whoever waits in the line without one, as entitled to the presale.

import { clock } from "../lib/pace";
import { page } from "../lib/page";
import { Room, type Screen } from "../room/line";

const ignore = (): void => undefined;

/**
 * Takes a number of the event's waiting room, or goes on with the one that this browser keeps, and calls
 * `served` when it is served, or none is needed. It gives up, and keeps the number, when that takes more
 * than requests: a test, a sign-in, or a proof of work.
 */
export function followPosition(eventId: string, served: () => void, signal: AbortSignal): void {
  const stop = (): void => room.stop();
  const screen: Screen = {
    taking: ignore,
    kept: ignore,
    progress: ignore,
    lobby: ignore,
    drawn: ignore,
    renewed: ignore,
    offline: ignore,
    refused: ignore,
    over: ignore,
    solving: stop,
    signedOut: stop,
    signIn: stop,
    test: stop,
    admitted: served,
  };
  const room = new Room(eventId, clock, screen, () => page.lang, () => Promise.resolve(undefined));
  signal.addEventListener("abort", stop, { once: true });
  void room.run();
}
