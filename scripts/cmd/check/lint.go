package main

import (
	"context"
	"path/filepath"
)

// lint runs golangci-lint with the checkout's configuration in every module.
func (c *checker) lint(ctx context.Context) error {
	dir, err := c.tools(ctx, "golangci-lint")
	if err != nil {
		return err
	}
	return c.eachModule(ctx, filepath.Join(dir, "golangci-lint"), "run", "--allow-parallel-runners", "./...")
}
