package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const (
	// Events are never removed, so that one exists is cached for long. An event created through
	// another gateway appears here after at most absentTTL.
	existsTTL = 10 * time.Minute
	absentTTL = 5 * time.Second
	// While the ticket service is unavailable, it is called at most once per unknownTTL and event.
	unknownTTL    = time.Second
	maxExistences = 20_000
	// These limit the load on the ticket service, and the wait of visitors, when ids are made up.
	existenceReads   = 8
	existenceTimeout = 500 * time.Millisecond
)

type existence int

const (
	unknown existence = iota
	exists
	absent
)

var errTooManyReads = errors.New("too many unknown events at once")

// EventExistence caches which events exist, for pages.
type EventExistence struct {
	events ticketv1.EventServiceClient
	states *otter.Cache[string, existence]
	reads  chan struct{}
}

// NewEventExistence makes an EventExistence that asks the ticket service.
func NewEventExistence(events ticketv1.EventServiceClient) (*EventExistence, error) {
	return newEventExistence(events, nil)
}

func newEventExistence(events ticketv1.EventServiceClient, clock otter.Clock) (*EventExistence, error) {
	states, err := otter.New(&otter.Options[string, existence]{
		MaximumSize: maxExistences, Clock: clock,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, existence]) time.Duration {
			return map[existence]time.Duration{exists: existsTTL, absent: absentTTL, unknown: unknownTTL}[e.Value]
		}),
	})
	if err != nil {
		return nil, err
	}
	return &EventExistence{events: events, states: states, reads: make(chan struct{}, existenceReads)}, nil
}

// Absent reports whether the ticket service says that an event does not exist. Without an answer in
// time it returns false, and the page shows what the API responds.
func (e *EventExistence) Absent(ctx context.Context, event string) bool {
	// An error (too many reads, a cancelled request) is not cached.
	state, err := e.states.Get(ctx, event, otter.LoaderFunc[string, existence](e.readExistence))
	return err == nil && state == absent
}

func (e *EventExistence) Forget(event string) { e.states.Invalidate(event) }

func (e *EventExistence) readExistence(ctx context.Context, event string) (existence, error) {
	select {
	case e.reads <- struct{}{}:
		defer func() { <-e.reads }()
	default:
		return unknown, errTooManyReads
	}
	// Other requests may wait for the same read, so the end of this request must not end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), existenceTimeout)
	defer cancel()
	_, err := e.events.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: event})
	switch {
	case err == nil:
		return exists, nil
	case errs.From(err).Reason == errs.ErrEventNotFound.Reason:
		return absent, nil
	default:
		return unknown, nil
	}
}
