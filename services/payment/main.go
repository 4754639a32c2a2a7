// Command payment takes payments and refunds them.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/payment/internal/app"
)

func main() {
	os.Exit(lifecycle.Main("payment", app.Run, app.Migrate, app.Outbox(), app.Kafka(), app.Reconcile()))
}
