// Command crowd sends simulated visitors through the gateway of a platform.
//
// Without an argument it plays the demo: a crowd buys out one sale, then the stores are audited. The last line is
// `demo ok: …` or `demo FAILED: …`; the exit code is 1 when an invariant is broken.
//
// `crowd smoke` needs nothing but the URL, so that it also runs inside a cluster: there are seats for everybody, and every
// request must succeed.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"urr.guru/scripts/internal/interrupt"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		os.Exit(exitCode(err))
	}
}

// exitCode is 130 after an interrupt, as a shell gives it, and 1 after any other failure.
func exitCode(err error) int {
	if errors.Is(err, errInterrupted) {
		return interrupt.Code
	}
	return 1
}

// run plays what the arguments ask for, and prints why it failed.
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
