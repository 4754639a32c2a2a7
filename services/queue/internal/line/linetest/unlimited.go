// Package linetest has a store without time limits, which the tests of several packages use.
package linetest

import (
	"context"

	"urr.guru/services/queue/internal/line"
)

// Unlimited returns a store that ignores the time limits of the service. The service continues
// without the answer of some calls after a few 100 ms; on a slow machine they may take longer.
func Unlimited(s line.Store) line.Store { return unlimited{s} }

type unlimited struct{ line.Store }

func (u unlimited) Peek(ctx context.Context, eventID string, known line.KnownState) (line.LineState, error) {
	return u.Store.Peek(context.WithoutCancel(ctx), eventID, known)
}

func (u unlimited) Open(ctx context.Context, eventID string, known line.KnownState) (line.LineState, error) {
	return u.Store.Open(context.WithoutCancel(ctx), eventID, known)
}

func (u unlimited) ApplySettings(ctx context.Context, eventID string, known line.KnownState, s line.Settings, readAt int64) (line.LineState, error) {
	return u.Store.ApplySettings(context.WithoutCancel(ctx), eventID, known, s, readAt)
}

func (u unlimited) Block(ctx context.Context, eventID string, known line.KnownState, users []string) (line.LineState, error) {
	return u.Store.Block(context.WithoutCancel(ctx), eventID, known, users)
}

func (u unlimited) ListEvents(ctx context.Context) ([]string, error) {
	return u.Store.ListEvents(context.WithoutCancel(ctx))
}

func (u unlimited) AddEvents(ctx context.Context, eventIDs ...string) error {
	return u.Store.AddEvents(context.WithoutCancel(ctx), eventIDs...)
}

func (u unlimited) ClaimTicks(ctx context.Context, r line.TickRequest) (line.TickPlan, error) {
	return u.Store.ClaimTicks(context.WithoutCancel(ctx), r)
}

func (u unlimited) ReportTicks(ctx context.Context, r line.TickResults) error {
	return u.Store.ReportTicks(context.WithoutCancel(ctx), r)
}
