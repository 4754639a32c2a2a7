// An error page: the server rendered its text, so only the frame is started.

import { startFrame } from "../lib/frame";

startFrame();
