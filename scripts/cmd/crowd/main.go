// Command crowd sends simulated visitors through the gateway of a platform.
//
// Without an argument it runs the demo: a crowd buys out one sale, then the stores are audited. The
// last line is `demo ok: …` or `demo FAILED: …`; the exit code is 1 when an invariant is violated.
//
// `crowd smoke` needs only the URL, so that it also runs inside a cluster: there are seats for all
// visitors, and every request must succeed.
package main

import (
	"fmt"
	"os"
	"strings"

	"urr.guru/scripts/demo"
	"urr.guru/scripts/internal/interrupt"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		os.Exit(demo.ExitCode(err))
	}
}

// run runs the command that the arguments name, and prints its error.
func run(args []string) error {
	ctx, stop := interrupt.Context()
	defer stop()
	switch {
	case len(args) == 0:
		return runDemo(ctx)
	case len(args) == 1 && args[0] == "smoke":
		err := runSmoke(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "smoke:", err)
		}
		return err
	}
	err := fmt.Errorf("crowd %s: the only argument is smoke", strings.Join(args, " "))
	fmt.Fprintln(os.Stderr, err)
	return err
}
