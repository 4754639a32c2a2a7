// Command ingest accepts the requests of users to promotions and sends them to an SQS queue.
package main

import (
	"os"

	"urr.guru/pkg/lifecycle"
	"urr.guru/services/ingest/internal/app"
)

func main() { os.Exit(lifecycle.Main("ingest", app.Run, nil, app.Migration())) }
