// Command stats counts what happens in the sales and answers for it.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/stats/internal/app"
)

func main() { os.Exit(lifecycle.Main("stats", app.Run, app.Migrate)) }
