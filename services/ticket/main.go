// Command ticket serves events, seats, reservations and tickets.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/ticket/internal/app"
)

func main() { os.Exit(lifecycle.Main("ticket", app.Run, app.Migrate, app.Outbox(), app.Kafka())) }
