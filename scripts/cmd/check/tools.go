package main

import (
	"context"

	"urr.guru/scripts/internal/tools"
)

// tools builds the tools that scripts/tools pins and returns the folder of the programs.
func (c *checker) tools(ctx context.Context, names ...string) (string, error) {
	return tools.Build(ctx, c.layout, tools.General, say, names...)
}
