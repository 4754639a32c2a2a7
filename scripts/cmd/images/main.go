// Command images builds the container images of the services into .urr/images/urr.tar. TAG is their
// tag (default dev).
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/scripts/images"
	"urr.guru/scripts/internal/interrupt"
	"urr.guru/scripts/platform"
)

type Config struct {
	// Tag of every image; the charts' appVersion is the default.
	Tag string `env:"TAG, default=dev"`
}

func main() { interrupt.Main("images", run) }

func run(ctx context.Context, _ []string) error {
	cfg, err := config.Load[Config](ctx)
	if err != nil {
		return err
	}
	layout, err := platform.Find()
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	began := time.Now()
	archive, err := images.Builder{Layout: layout, Say: say}.Build(ctx, cfg.Tag)
	if err != nil {
		return err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return fmt.Errorf("look at the archive: %w", err)
	}
	say("%s: %d MB, built in %.0f s", archive, info.Size()>>20, time.Since(began).Seconds())
	return nil
}
