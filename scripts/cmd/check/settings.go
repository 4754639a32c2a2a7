package main

import (
	"context"
	"errors"
	"path/filepath"

	"urr.guru/scripts/internal/settings"
	"urr.guru/scripts/platform"
)

// settings rewrites the table of settings in the README of every service.
func (c *checker) settings(context.Context) error {
	var errs []error
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
