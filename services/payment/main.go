// Command payment is the payment service: it charges and refunds payments.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/payment/internal/app"
)

func main() {
	os.Exit(lifecycle.Main("payment", app.Run, app.Migrate, app.Outbox(), app.Kafka(), app.Reconcile(app.WithProviders, app.WithTicket)))
}
