package line_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// office is a ticket service that knows where sales stand.
type office struct {
	directory

	mu    sync.Mutex
	words map[string]line.SaleReport
	age   time.Duration
	err   error
	calls [][]string
}

func (o *office) Sales(_ context.Context, ids []string) (map[string]line.SaleReport, time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, ids)
	if o.err != nil {
		return nil, 0, o.err
	}
	found := make(map[string]line.SaleReport)
	for _, id := range ids {
		if w, ok := o.words[id]; ok {
			w.Age = o.age
			found[id] = w
		}
	}
	return found, o.age, nil
}

func (o *office) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (o *office) says(event string, status line.SaleStatus, opens time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.words == nil {
		o.words = make(map[string]line.SaleReport)
	}
	o.words[event] = line.SaleReport{Sale: line.Sale{
		Status: status, OpensAt: opens.UnixMilli(), ClosesAt: opens.Add(24 * time.Hour).UnixMilli(),
	}}
}

// setThreshold changes the settings of the event's line.
func (o *office) setThreshold(event string, threshold int64) {
	o.directory.mu.Lock()
	o.threshold = threshold
	o.directory.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	word := o.words[event]
	word.SettingsVersion++
	o.words[event] = word
}

// asked forgets what was asked for so far and returns it.
func (o *office) asked() [][]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

// saleWorld is a world whose replicas ask one ticket service, which says where the event's sale stands.
func saleWorld(t *testing.T, status line.SaleStatus) (*world, *office) {
	t.Helper()
	w, tickets := newWorld(t), &office{}
	tickets.says(w.event, status, w.clock.Now())
	return w, tickets
}

// asking is a replica that asks a ticket service about everything.
func (w *world) asking(tickets *office) *replica {
	w.t.Helper()
	return w.replicaOf(w.store(), tickets, tickets)
}

// opened is such a replica that has opened the event's line.
func (w *world) opened(tickets *office) *replica {
	w.t.Helper()
	r := w.asking(tickets)
	require.NoError(w.t, r.service.Open(w.t.Context(), w.event))
	return r
}

// requirePlace compares a place's status, and where it says that the sale stands.
func requirePlace(t *testing.T, status string, sale line.SaleStatus, p line.Place, msg ...any) {
	t.Helper()
	require.Equal(t, []string{status, sale.String()}, []string{p.Status, p.Sale.String()}, msg...)
}

// second lets a second pass at a replica.
func (w *world) second(rs ...*replica) {
	w.t.Helper()
	w.clock.Advance(time.Second)
	for _, r := range rs {
		r.service.AskSales(w.t.Context())
		r.worker.Tick(w.t.Context())
	}
}

func (r *replica) status(ctx context.Context, event, user string) line.Place {
	return r.service.Status(ctx, []line.Request{{EventID: event, Caller: line.Caller{UserID: user}}})[0].Place
}

// lines is what a gateway that connects now is told.
func (r *replica) lines(t *testing.T) (told []line.Recovery) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.service.Watch(ctx, func(lines []line.Recovery, snapshot bool) error {
		if snapshot {
			told = lines
		}
		cancel()
		return nil
	}))
	return told
}
