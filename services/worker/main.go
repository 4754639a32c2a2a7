// Command worker settles the requests of users to promotions, in the order of the queue.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/worker/internal/app"
)

func main() { os.Exit(lifecycle.Main("worker", app.Run, app.Migrate)) }
