// Command queue serves tier 2 of the waiting room: the line of each event, admission and entry
// tokens.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/queue/internal/app"
)

func main() { os.Exit(lifecycle.Main("queue", app.Run, app.Migrate, app.Kafka())) }
