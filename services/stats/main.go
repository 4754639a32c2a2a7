// Command stats counts the reservations and payments of all sales and serves the figures.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/stats/internal/app"
)

func main() { os.Exit(lifecycle.Main("stats", app.Run, app.Migrate)) }
