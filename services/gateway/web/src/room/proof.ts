// The proof of work that a position may cost, see puzzle.ts.

import { Problem } from "../lib/problem";

export interface Puzzle {
  challenge: string;
  // Leading zero bits.
  difficulty: number;
  // Milliseconds until the challenge is void.
  ms: number;
}

/** Finds the proof of a puzzle; undefined when the time was too short. */
export type Solve = (puzzle: Puzzle) => Promise<string | undefined>;

// How much longer than its puzzle's time a worker may take, in milliseconds. Browsers may end a worker
// without a word.
const SLACK = 5000;

/**
 * Solves puzzles in a worker, so that the page stays responsive. A worker that fails throws a temporary
 * Problem.
 */
export function solveIn(start: () => Worker): Solve {
  return (puzzle) =>
    new Promise((resolve, reject) => {
      const worker = start();
      const end = (): void => {
        clearTimeout(late);
        worker.terminate();
      };
      const late = setTimeout(
        () => {
          end();
          resolve(undefined);
        },
        Math.max(0, puzzle.ms) + SLACK,
      );
      worker.onmessage = (message: MessageEvent<string | undefined>) => {
        end();
        resolve(message.data);
      };
      worker.onerror = () => {
        end();
        reject(new Problem(0, {}, 0));
      };
      worker.postMessage(puzzle);
    });
}
