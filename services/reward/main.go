// Command reward records attendance and draws, and pays their rewards.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/reward/internal/app"
)

func main() {
	os.Exit(lifecycle.Main("reward", app.Run, app.Migrate, app.Outbox(), app.Kafka(), app.Reconcile()))
}
