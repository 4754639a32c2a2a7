// Command rewards runs the rewards demo on the checkout's platform: members record attendances and
// take part in a prize draw, a provider that loses answers pays them, and a replica of the reward
// service is killed meanwhile. The last line is `demo-rewards ok: …` or `demo-rewards FAILED: …`;
// the exit code is 1 if an invariant is violated.
package main

import (
	"urr.guru/scripts/demo"
	"urr.guru/scripts/demo/rewards"
)

func main() { demo.Main("demo-rewards", rewards.Run) }
