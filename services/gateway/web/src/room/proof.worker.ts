// Does proofs of work, one for each message.

import type { Puzzle } from "./proof";
import { solve } from "./puzzle";

onmessage = (message: MessageEvent<Puzzle>) => postMessage(solve(message.data));
