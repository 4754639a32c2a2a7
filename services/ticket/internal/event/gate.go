package event

import (
	"context"
	"time"

	"urr.guru/pkg/errs"
)

// shedRetry is when whoever was turned away may come again.
const shedRetry = time.Second

// gate bounds how much is done at once, and how much waits for that; what is too much is turned away.
type gate struct {
	running chan struct{}
	waiting chan struct{}
}

func newGate(running, waiting int) *gate {
	return &gate{running: make(chan struct{}, running), waiting: make(chan struct{}, running+waiting)}
}

// do runs fn in its turn: errs.ErrOverloaded when too many wait already.
func (g *gate) do(ctx context.Context, fn func() error) error {
	select {
	case g.waiting <- struct{}{}:
	default:
		return errs.ErrOverloaded.WithRetry(shedRetry)
	}
	defer func() { <-g.waiting }()
	select {
	case g.running <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.running }()
	return fn()
}
