// Command promo runs the promotions demo on the checkout's platform: many users apply at once to a
// first-come promotion and to a lottery, and the lottery's draw is verified. The last line is
// `demo-promo ok: …` or `demo-promo FAILED: …`. The exit code is 1 if an invariant is violated.
package main

import (
	"urr.guru/scripts/demo"
	"urr.guru/scripts/demo/promo"
)

func main() { demo.Main("demo-promo", promo.Run) }
