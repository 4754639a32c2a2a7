// Command victim calls Hit and Err once each, for the tests of package failpoint.
package main

import (
	"os"

	"urr.guru/pkg/failpoint"
)

func main() {
	failpoint.Hit("victim.hit")
	if failpoint.Err("victim.err") != nil {
		os.Exit(3)
	}
}
