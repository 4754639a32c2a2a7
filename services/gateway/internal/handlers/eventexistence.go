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
	// No event is ever removed, so what exists is believed for long. One that another gateway has
	// created appears here after at most absentLife.
	existsLife = 10 * time.Minute
	absentLife = 5 * time.Second
	// While ticket is away, an event's page asks it once in a while and not at every visit.
	unsureLife     = time.Second
	existencesKept = 20_000
	// Made-up ids cost ticket at most this many reads at once, and a visitor at most this long.
	existenceReads   = 8
	existenceTimeout = 500 * time.Millisecond
)

type existence int

const (
	unsure existence = iota
	exists
	absent
)

var errTooManyReads = errors.New("too many unknown events at once")

// EventExistence knows which events exist, for the pages: their scripts find out everything else.
type EventExistence struct {
	events ticketv1.EventServiceClient
	known  *otter.Cache[string, existence]
	reads  chan struct{}
}

// NewEventExistence makes an EventExistence that asks ticket.
func NewEventExistence(events ticketv1.EventServiceClient) (*EventExistence, error) {
	return newEventExistence(events, nil)
}

func newEventExistence(events ticketv1.EventServiceClient, clock otter.Clock) (*EventExistence, error) {
	known, err := otter.New(&otter.Options[string, existence]{
		MaximumSize: existencesKept, Clock: clock,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, existence]) time.Duration {
			return map[existence]time.Duration{exists: existsLife, absent: absentLife, unsure: unsureLife}[e.Value]
		}),
	})
	if err != nil {
		return nil, err
	}
	return &EventExistence{events: events, known: known, reads: make(chan struct{}, existenceReads)}, nil
}

// Absent reports that an event certainly does not exist. What cannot be found out soon enough
// counts as an event: its page then shows what the API says.
func (e *EventExistence) Absent(ctx context.Context, event string) bool {
	// An error (too many reads, a visitor who has left) says nothing about the event and is not kept.
	state, err := e.known.Get(ctx, event, otter.LoaderFunc[string, existence](e.read))
	return err == nil && state == absent
}

// Forget drops what is known of an event that an operator has put through this gateway.
func (e *EventExistence) Forget(event string) { e.known.Invalidate(event) }

func (e *EventExistence) read(ctx context.Context, event string) (existence, error) {
	select {
	case e.reads <- struct{}{}:
		defer func() { <-e.reads }()
	default:
		return unsure, errTooManyReads
	}
	// Others may wait for the same answer, so it does not end with its first visitor.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), existenceTimeout)
	defer cancel()
	_, err := e.events.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: event})
	switch {
	case err == nil:
		return exists, nil
	case errs.From(err).Reason == errs.ErrEventNotFound.Reason:
		return absent, nil
	default:
		return unsure, nil
	}
}
