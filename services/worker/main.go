// Command worker decides about users' requests to promotions, in the order of the queue.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/worker/internal/app"
)

func main() { os.Exit(lifecycle.Main("worker", app.Run, app.Migrate)) }
