// Command stats counts the reservations, payments and rewards of all events and serves the figures.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/stats/internal/app"
)

func main() {
	os.Exit(lifecycle.Main("stats", app.Run, app.Migrate, app.Kafka(), app.Rebuild(), app.Audit()))
}
