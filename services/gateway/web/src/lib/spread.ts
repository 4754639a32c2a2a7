// When the visitors of a crowd ask for something that all wait for, where no response names an own
// time for each: the same rule as pkg/spread, with a random number in place of the visitor's id.

/** Seconds over which visitors are spread whose number is not known. */
export const unknownCrowd = 3;

/** Seconds over which the requests of a crowd are spread, so that there are `rate` per second. */
export const spreadOver = (crowd: number, rate: number): number => (crowd > rate ? crowd / rate : 0);

/**
 * Seconds until the next request for something that is overdue for so many seconds, before `poll` varies
 * them: the later it is, the more seldom.
 */
export const again = (late: number, over: number): number => Math.min(3 + 3 * late, Math.max(15, 2 * over));

/** Seconds until the visitor asks for what is due in so many ms, given the seconds over which all are spread. */
export function untilTurn(due: number, over: number): number {
  return due > 0 ? due / 1000 + 1 + over * Math.random() : again(-due / 1000, over);
}
