package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"urr.guru/scripts/bench/figures"
	"urr.guru/scripts/internal/schemas"
	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/internal/umbrella"
	"urr.guru/scripts/platform"
)

// settings generates the table of settings in the README of every service, the schemas of the
// charts' values, and the umbrella chart's dependencies.
func (c *checker) settings(context.Context) error {
	services := slices.DeleteFunc(platform.Names(), func(name string) bool { return name == platform.Sandbox })
	charts := filepath.Join(c.layout.Root, "deploy", "helm")
	errs := []error{umbrella.Write(charts, services)}
	errs = append(errs, schemas.Write(charts)) // the umbrella's schema names its dependencies
	for _, name := range services {
		all, err := settings.Read(c.layout.Root, name)
		if err == nil {
			err = settings.Write(filepath.Join(c.layout.Root, "services", name, "README.md"), all)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// figures generates the tables of `make bench` in the documents from the report that is kept.
func (c *checker) figures(context.Context) error { return figures.Write(c.layout.Root) }
