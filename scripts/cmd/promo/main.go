// Command promo runs the demo of promotions on the checkout's platform: a burst of applications to a
// first-come promotion and one to a lottery, whose draw it verifies. The last line is
// `demo-promo ok: …` or `demo-promo FAILED: …`; the exit code is 1 when an invariant is violated.
package main

import (
	"urr.guru/scripts/demo"
	"urr.guru/scripts/demo/promo"
)

func main() { demo.Main("demo-promo", promo.Run) }
