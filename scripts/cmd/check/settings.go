package main

import (
	"context"
	"slices"

	"urr.guru/proto/access"
	"urr.guru/scripts/bench/figures"
	"urr.guru/scripts/internal/derived"
	"urr.guru/scripts/platform"
)

// settings generates what follows from the services' Config structs, the RPCs' access options and
// the list of services.
func (c *checker) settings(ctx context.Context) error {
	services := slices.DeleteFunc(platform.Names(), func(name string) bool { return name == platform.Sandbox })
	return derived.Write(ctx, c.layout.Root, services, access.Calls())
}

// figures generates the tables of `make bench` in the documents from the report that is kept.
func (c *checker) figures(context.Context) error { return figures.Write(c.layout.Root) }
