// The proof of work that a position may cost, see puzzle.ts.

export interface Puzzle {
  challenge: string;
  // Leading zero bits.
  difficulty: number;
  // Milliseconds until the challenge is void.
  ms: number;
}

/** Finds the proof of a puzzle; undefined when the time was too short. */
export type Solve = (puzzle: Puzzle) => Promise<string | undefined>;

/** Solves puzzles in a worker, so that the page stays responsive. */
export function solveIn(start: () => Worker): Solve {
  return (puzzle) =>
    new Promise((resolve, reject) => {
      const worker = start();
      worker.onmessage = (message: MessageEvent<string | undefined>) => {
        worker.terminate();
        resolve(message.data);
      };
      worker.onerror = (failure) => {
        worker.terminate();
        reject(new Error(failure.message));
      };
      worker.postMessage(puzzle);
    });
}
