package main

import (
	"context"
	"errors"
	"path/filepath"

	"urr.guru/scripts/internal/schemas"
	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/platform"
)

// settings generates the table of settings in the README of every service, and the schemas of the
// charts' values.
func (c *checker) settings(context.Context) error {
	errs := []error{schemas.Write(filepath.Join(c.layout.Root, "deploy", "helm"))}
	for _, name := range platform.Names() {
		if name == platform.Sandbox {
			continue
		}
		all, err := settings.Read(c.layout.Root, name)
		if err == nil {
			err = settings.Write(filepath.Join(c.layout.Root, "services", name, "README.md"), all)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
