package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	pkgsqs "urr.guru/pkg/sqs"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/sqs"
)

// hanging is a fake SQS that does not answer until end is closed, whatever the deadline.
type hanging struct{ asked, end chan struct{} }

func (h hanging) SendMessageBatch(context.Context, *awssqs.SendMessageBatchInput, ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	h.asked <- struct{}{}
	select {
	case <-h.end:
	case <-time.After(2 * time.Minute): // so that a visitor who waits for the call fails the test
	}
	return nil, errors.New("no answer")
}

// sender returns a client of an SQS endpoint. The client leaves no connections open after the test.
func sender(t *testing.T, endpoint string) sqs.Sender {
	t.Helper()
	client, err := pkgsqs.Open(t.Context(), pkgsqs.Config{Region: "elasticmq", Endpoint: endpoint})
	require.NoError(t, err)
	return awssqs.New(client.Options(), func(o *awssqs.Options) {
		o.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	})
}

// failures returns how many admissions were not announced in all tests so far.
func failures(t *testing.T) float64 {
	t.Helper()
	n, _ := metricstest.MetricSum(t, "urr_queue_announcements_total", map[string]string{"result": "failed"})
	return n
}

// Visitors join, wait and get in as usual while the SQS queue for admissions is away, hangs, or is
// the wrong one. Admissions that are not sent are counted.
func TestVisitorsDoNotNoticeABrokenQueue(t *testing.T) {
	testkit.SkipIfShort(t, "long tests with faults")
	hangs := hanging{asked: make(chan struct{}, 100), end: make(chan struct{})}
	for name, sends := range map[string]sqs.Sender{
		"gone":  sender(t, "http://127.0.0.1:1"),
		"slow":  hangs,
		"wrong": sender(t, backendtest.SQS(t)),
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			before := failures(t)
			announcer := sqs.New(sends, backendtest.SQS(t)+"/000000000000/of-nobody.fifo", slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- announcer.Run(ctx) }()
			t.Cleanup(func() {
				stop()
				require.NoError(t, <-done)
			})
			f.announce = announcer
			f.serve(f.client, make(chan struct{}))
			if name == "slow" {
				t.Cleanup(func() { close(hangs.end) }) // this runs before the wait for the announcer
			}
			f.open(2)
			a, _ := f.enter("a")
			f.enter("b")
			if name == "slow" {
				testkit.Receive(t, hangs.asked, "a call that hangs")
			} else {
				testkit.Until(t, func() bool { return failures(t) > before }, "a failed call")
			}
			require.Equal(t, "queued", f.check(f.item("c")).GetPlace().GetStatus())
			f.leave("a", a.GetEntry())
			f.tick()
			place := f.status(f.item("c")).GetPlace()
			require.Equal(t, "active", place.GetStatus())
			require.True(t, f.verify("c", f.claims(place.GetEntryToken())).GetActive())
			if name == "slow" {
				require.Empty(t, hangs.asked, "the one call still hangs, and nobody has waited for it")
			}
		})
	}
}

// A late event about an earlier slot does not change the present slot.
func TestLateEventsOfAnEarlierSlot(t *testing.T) {
	late := map[string]func(f *fixture, first *queuev1.EntryClaims) error{
		"a purchase": func(f *fixture, first *queuev1.EntryClaims) error {
			return f.service.RecordPurchase(f.ctx(), f.event, "a", first.GetSlotId())
		},
		"a hold": func(f *fixture, first *queuev1.EntryClaims) error {
			return f.service.RecordHold(f.ctx(), f.event, line.SeatHold{UserID: "a", SlotID: first.GetSlotId(), ReservationID: "r", Until: f.clock().Add(time.Hour)})
		},
		"the end of a hold": func(f *fixture, first *queuev1.EntryClaims) error {
			return f.service.RecordHold(f.ctx(), f.event, line.SeatHold{UserID: "a", SlotID: first.GetSlotId(), ReservationID: "r"})
		},
		"leaving": func(f *fixture, first *queuev1.EntryClaims) error { f.leave("a", first); return nil },
	}
	for name, event := range late {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			f.open(1)
			a, _ := f.enter("a")
			require.NoError(t, f.service.RecordPurchase(f.ctx(), f.event, "a", a.GetEntry().GetSlotId()))
			require.False(t, f.verify("a", a.GetEntry()).GetActive(), "one purchase per slot")
			f.advance(time.Second)

			again, place := f.enter("a")
			require.NotEqual(t, a.GetEntry().GetSlotId(), again.GetEntry().GetSlotId())
			for range 2 { // events may be repeated
				require.NoError(t, event(f, a.GetEntry()))
				require.True(t, f.verify("a", again.GetEntry()).GetActive())
				require.Equal(t, place.GetExpiresAt(), f.status(f.item("a")).GetPlace().GetExpiresAt())
			}
			f.leave("a", again.GetEntry())
			f.check(f.item("a")) // enters
			f.check(f.item("b"))
			f.leave("b", nil)
			waits := f.item("b")
			f.check(waits)
			require.NoError(t, event(f, again.GetEntry()))
			require.Equal(t, "queued", f.status(waits).GetPlace().GetStatus(), "nor of the place of another user")
		})
	}
}
