// Command verify checks a draw or a shuffle from what was published about it, without trusting the
// operator. It contacts nobody but the URL, and nobody at all for a file.
//
//	verify draw    URL|FILE [--receipt FILE]… [--earlier FILE]… [--entries FILE] [--save FILE] [--trust-chain HASH]
//	verify shuffle URL|FILE …
//
// URL is the draw's URL, such as https://tickets.example/api/v1/draws/ID. Its entries are read
// below it, chunk by chunk at /entries/0, /entries/1 and so on; a shuffle's are at /entries. Memory
// is needed for one chunk of a draw, and for all entries of a shuffle. Beside a FILE the entries
// are FILE.entries, unless --entries names another file. --save FILE writes the document to FILE
// and the entries to FILE.entries, with the time. In a later run, --earlier FILE compares the draw
// with that copy, which shows any change since then. A receipt is the text or the JSON that
// answered the application.
//
// The exit code is 0 when everything that is published so far is genuine, 1 when something is not, 2
// when that could not be checked, and 3 when it is genuine only if the beacon's owner is honest,
// because the beacon is not a known public network. --trust-chain HASH accepts such a beacon, for
// example that of a test.
package main

import (
	"os"
	"time"

	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/verify"
)

func main() {
	ctx, stop := interrupt.Context()
	code := verify.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, time.Now)
	stop()
	os.Exit(code)
}
