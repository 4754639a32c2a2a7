// Command rewards runs the demo of rewards on the checkout's platform: members attend and draw, are
// paid by a provider that loses answers, and a replica of reward is killed on the way. The last
// line is `demo-rewards ok: …` or `demo-rewards FAILED: …`; the exit code is 1 when an invariant is
// violated.
package main

import (
	"urr.guru/scripts/demo"
	"urr.guru/scripts/demo/rewards"
)

func main() { demo.Main("demo-rewards", rewards.Run) }
