// Command crowd simulates the visitors of a sale, who use a platform through its gateway.
//
// Without an argument it runs the sale demo: visitors buy all seats of a sale, then the stores are
// audited. The last line is `demo ok: …` or `demo FAILED: …`. The exit code is 1 if an invariant
// is violated.
//
// `crowd smoke` is a short sale with seats for all visitors, in which every request must succeed.
// It needs only the gateway's URL, so it also runs inside a cluster.
package main

import (
	"fmt"
	"os"
	"strings"

	"urr.guru/scripts/demo"
	"urr.guru/scripts/demo/sale"
	"urr.guru/scripts/internal/interrupt"
)

func main() {
	switch command := strings.Join(os.Args[1:], " "); command {
	case "":
		demo.Main("demo", sale.Run)
	case "smoke":
		ctx, stop := interrupt.Context()
		err := sale.Smoke(ctx)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, "smoke:", err)
		}
		os.Exit(demo.ExitCode(err))
	default:
		fmt.Fprintf(os.Stderr, "crowd %s: the only argument is smoke\n", command)
		os.Exit(1)
	}
}
