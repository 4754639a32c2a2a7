// Command vwr serves tier 1 of the waiting room: positions, the serving counter and tier-1 tokens.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/vwr/internal/app"
)

func main() { os.Exit(lifecycle.Main("vwr", app.Run, nil, app.Migration())) }
