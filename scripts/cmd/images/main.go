// Command images builds the container images of the services into .urr/images/urr.tar. TAG is their
// tag (default dev).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/scripts/images"
	"urr.guru/scripts/platform"
)

// Config is read from the environment.
type Config struct {
	// Tag of every image; the charts' appVersion is the default.
	Tag string `env:"TAG, default=dev"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
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
