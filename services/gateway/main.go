// Command gateway serves the HTTP API and the pages, and enforces both waiting rooms in front of
// them.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/gateway/internal/app"
)

func main() { os.Exit(lifecycle.Main("gateway", app.Run, app.Migrate, app.Plan())) }
