// Command web builds the gateway's pages: it installs the packages if needed, checks the types,
// bundles the pages, and writes the result, compressed, to the folder that the gateway embeds. It
// can run anywhere inside the checkout.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"urr.guru/scripts/platform"
	"urr.guru/scripts/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	layout, err := platform.Find()
	if err == nil {
		err = web.Build(ctx, layout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}
