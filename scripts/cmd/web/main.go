// Command web builds the gateway's pages: it installs the packages if needed, checks the types,
// bundles the pages, and writes the result, compressed, to the folder that the gateway embeds. It
// can run anywhere inside the checkout.
package main

import (
	"context"

	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/web"
)

func main() {
	interrupt.Main("web", func(ctx context.Context, _ []string) error {
		layout, err := platform.Find()
		if err != nil {
			return err
		}
		return web.Build(ctx, layout)
	})
}
