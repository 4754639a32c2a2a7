// Command gateway is the platform's face: the HTTP API, the pages, and the edge checks of both waiting rooms.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/gateway/internal/app"
)

func main() { os.Exit(lifecycle.Main("gateway", app.Run, nil)) }
