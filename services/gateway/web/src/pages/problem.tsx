// A page that was refused: the server has said why, only its frame does something.

import { startFrame } from "../lib/frame";

startFrame();
