// Command queue serves tier 2 of the waiting room: the waiting line of each event, the admission of
// visitors, and entry tokens.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/queue/internal/app"
)

func main() { os.Exit(lifecycle.Main("queue", app.Run, app.Migrate, app.Kafka())) }
