package line_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

// fakeTicket is a fake ticket service with sale statuses.
type fakeTicket struct {
	directory

	mu      sync.Mutex
	reports map[string]line.SaleReport
	age     time.Duration
	err     error
	calls   [][]string
	// entitled are the users who may buy in presales. asks has the users of each HoldEntitlement call.
	entitled map[string]bool
	asks     [][]string
}

func (o *fakeTicket) HoldEntitlement(_ context.Context, _ string, visitors []line.Visitor) ([]bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	users, answers := make([]string, len(visitors)), make([]bool, len(visitors))
	for i, v := range visitors {
		users[i], answers[i] = v.UserID, o.entitled[v.UserID] || o.entitled[v.Email]
	}
	o.asks = append(o.asks, users)
	if o.err != nil {
		return nil, o.err
	}
	return answers, nil
}

// setEntitled sets who may buy in presales.
func (o *fakeTicket) setEntitled(users ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entitled = make(map[string]bool)
	for _, u := range users {
		o.entitled[u] = true
	}
}

// askedAbout returns the users of each HoldEntitlement call so far, and clears the list.
func (o *fakeTicket) askedAbout() [][]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	asks := o.asks
	o.asks = nil
	return asks
}

// setPresale sets the report on an event's sale, which has a presale.
func (o *fakeTicket) setPresale(event string, status line.SaleStatus, presale, opens time.Time) {
	o.setStatus(event, status, opens)
	o.mu.Lock()
	defer o.mu.Unlock()
	report := o.reports[event]
	report.PresaleOpensAt = presale.UnixMilli()
	o.reports[event] = report
}

func (o *fakeTicket) Sales(_ context.Context, ids []string) (map[string]line.SaleReport, time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, ids)
	if o.err != nil {
		return nil, 0, o.err
	}
	found := make(map[string]line.SaleReport)
	for _, id := range ids {
		if w, ok := o.reports[id]; ok {
			w.Age = o.age
			found[id] = w
		}
	}
	return found, o.age, nil
}

func (o *fakeTicket) setError(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (o *fakeTicket) setStatus(event string, status line.SaleStatus, opens time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reports == nil {
		o.reports = make(map[string]line.SaleReport)
	}
	o.reports[event] = line.SaleReport{Sale: line.Sale{
		Status: status, OpensAt: opens.UnixMilli(), ClosesAt: opens.Add(24 * time.Hour).UnixMilli(),
	}}
}

// setThreshold sets the threshold in the settings of the event's line.
func (o *fakeTicket) setThreshold(event string, threshold int64) {
	o.directory.mu.Lock()
	o.threshold = threshold
	o.directory.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	report := o.reports[event]
	report.SettingsVersion++
	o.reports[event] = report
}

// asked returns the event ids of each Sales call so far, and clears the list.
func (o *fakeTicket) asked() [][]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

// newSaleEnv returns an environment, and a ticket service that reports this status of the sale.
func newSaleEnv(t *testing.T, status line.SaleStatus) (*testEnv, *fakeTicket) {
	t.Helper()
	w, tickets := newTestEnv(t), &fakeTicket{}
	tickets.setStatus(w.event, status, w.clock.Now())
	return w, tickets
}

// replicaAsking returns a replica that uses the given ticket service.
func (w *testEnv) replicaAsking(tickets *fakeTicket) *replica {
	w.t.Helper()
	return w.replicaOf(w.store(), tickets, tickets)
}

// opened returns a replica that uses the given ticket service and has opened the event's line.
func (w *testEnv) opened(tickets *fakeTicket) *replica {
	w.t.Helper()
	r := w.replicaAsking(tickets)
	r.open(w.t, w.event)
	return r
}

// open opens an event's line by the call of a visitor who needs a position, or in a presale an
// entitlement, and so gets no place.
func (r *replica) open(t *testing.T, event string) {
	t.Helper()
	opener := line.Visitor{UserID: "opener", Tier1: line.Tier1{Required: true}}
	err := errs.From(r.service.Check(t.Context(), []line.PlaceRequest{{EventID: event, Visitor: opener}})[0].Err)
	require.Contains(t, []string{line.ErrPassRequired.Reason, errs.ErrEntitlementUnknown.Reason}, err.Reason)
}

// requirePlace checks the status of a place, and the status of the sale in it.
func requirePlace(t *testing.T, status string, sale line.SaleStatus, p line.Place, msg ...any) {
	t.Helper()
	require.Equal(t, []string{status, sale.String()}, []string{p.Status, p.Sale.String()}, msg...)
}

// second lets one second pass, and then runs the work that each replica does every second.
func (w *testEnv) second(rs ...*replica) {
	w.t.Helper()
	w.clock.Advance(time.Second)
	for _, r := range rs {
		r.service.RefreshSales(w.t.Context())
		r.worker.Tick(w.t.Context())
	}
}

func (r *replica) status(ctx context.Context, event, user string) line.Place {
	return r.service.Status(ctx, []line.PlaceRequest{{EventID: event, Visitor: line.Visitor{UserID: user}}})[0].Place
}

// lines returns the snapshot that a new watcher of lines gets first.
func (r *replica) lines(t *testing.T) (sent []line.LineUpdate) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.service.WatchLines(ctx, func(lines []line.LineUpdate, snapshot bool) error {
		if snapshot {
			sent = lines
		}
		cancel()
		return nil
	}))
	return sent
}
