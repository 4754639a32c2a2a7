// Command victim passes a failpoint of each kind.
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
