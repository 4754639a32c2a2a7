package main

import (
	"context"
	"errors"

	"urr.guru/scripts/bench"
	"urr.guru/scripts/internal/size"
)

// verifySize prints the size of what is written by hand, and fails when a limit is broken.
func (c *checker) verifySize(ctx context.Context) error {
	figures, err := size.Figures(ctx, c.layout.Root, len(bench.Rows()))
	if err != nil {
		return err
	}
	for _, f := range figures {
		say("%s", f)
		if !f.Holds() {
			err = errors.Join(err, errors.New("the limit is broken: "+f.Name))
		}
	}
	return err
}
