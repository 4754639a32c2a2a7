package line_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
)

// A line knows from its first visitor on that its sale has not opened yet. Then the sale opens by
// the clock, without a new report.
func TestNewLineKnowsItsSale(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	opens := w.clock.Now().Add(15 * time.Second)
	tickets.setStatus(w.event, line.Scheduled, opens)
	a, b := w.replicaAsking(tickets), w.replicaAsking(tickets)
	first := a.check(t.Context(), w.event, "u1").Place
	requirePlace(t, line.StatusQueued, line.Scheduled, first)
	require.Equal(t, int64(20), first.EstimatedWait, "15 s to the opening, and 5 s from then on")
	require.Equal(t, [][]string{{w.event}}, tickets.asked())

	tickets.setError(errs.ErrUnavailable) // until the end of the test
	w.second(b)
	require.Equal(t, line.StatusQueued, b.check(t.Context(), w.event, "u2").Place.Status)
	require.Equal(t, line.Scheduled, b.status(t.Context(), w.event, "u2").Sale, "from the line")
	require.Equal(t, line.Scheduled, b.lines(t)[0].Sale)
	for w.clock.Now().Before(opens) {
		require.Zero(t, a.meter.admitted+b.meter.admitted)
		w.second(a, b)
		a.status(t.Context(), w.event, "u1")
	}
	require.Equal(t, int64(1), a.meter.admitted+b.meter.admitted)
	require.True(t, a.meter.figures.Selling)
	for _, r := range []*replica{a, b} {
		p := r.status(t.Context(), w.event, "u1")
		requirePlace(t, line.StatusActive, line.OnSale, p)
		require.Equal(t, line.OnSale, r.lines(t)[0].Sale)
	}
}

func TestSalesAreReadInBatches(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	a, b := w.replicaAsking(tickets), w.replicaAsking(tickets)
	var ids []string
	for i := range 3 {
		ids = append(ids, fmt.Sprintf("%s-%d", w.event, i))
		a.open(t, ids[i])
	}
	w.second(b) // replica b finds them in the registry
	tickets.asked()
	w.second(a, b)
	require.Equal(t, [][]string{ids, ids}, tickets.asked())
	for range 100 {
		a.status(t.Context(), ids[0], "u")
		a.check(t.Context(), ids[0], "u")
	}
	require.Empty(t, tickets.asked(), "visitors' calls ask nothing")
	w.clock.Advance(4 * time.Minute)
	a.service.RefreshSales(t.Context())
	require.Equal(t, [][]string{{ids[0]}}, tickets.asked(), "of lines without visitors that nobody has ticked or asked about nothing is asked")
}

func TestSalesBatchesAreBounded(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	r := w.replicaAsking(tickets)
	for i := range 101 {
		_, err := r.service.SaleClosed(t.Context(), fmt.Sprintf("%s-%d", w.event, i))
		require.NoError(t, err)
	}
	tickets.asked()
	r.service.RefreshSales(t.Context())
	calls := tickets.asked()
	slices.SortFunc(calls, func(a, b []string) int { return len(b) - len(a) })
	require.Len(t, calls, 3)
	require.Equal(t, []int{50, 50, 1}, []int{len(calls[0]), len(calls[1]), len(calls[2])})
}

func TestPausedAndSoldOutLinesKeepPlaces(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	now := w.clock.Now()
	r := w.opened(tickets)
	require.Equal(t, line.StatusActive, r.check(t.Context(), w.event, "in").Place.Status)
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "w").Place.Status)
	require.NoError(t, r.service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(t, w, "in")}))
	for _, status := range []line.SaleStatus{line.SoldOut, line.SalePaused} {
		tickets.setStatus(w.event, status, now)
		w.second(r)
		p := r.status(t.Context(), w.event, "w")
		requirePlace(t, line.StatusQueued, status, p)
		require.Equal(t, status, r.lines(t)[0].Sale)
		require.False(t, r.meter.figures.Selling)
	}
	tickets.setStatus(w.event, line.OnSale, now) // a seat is free again
	w.second(r)
	require.Equal(t, line.StatusActive, r.status(t.Context(), w.event, "w").Status)
}

func TestEndedSaleHasNoLine(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	now := w.clock.Now()
	r := w.opened(tickets)
	require.Equal(t, line.StatusActive, r.check(t.Context(), w.event, "in").Place.Status)
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "w").Place.Status)
	tickets.setStatus(w.event, line.Cancelled, now)
	w.second(r)
	in := line.SlotQuery{EventID: w.event, UserID: "in", SlotID: "any", Epoch: r.lines(t)[0].Epoch}
	require.False(t, r.service.VerifySlots(t.Context(), []line.SlotQuery{in})[0].Active)
	for _, user := range []string{"in", "w", "new"} {
		for _, p := range []line.Place{r.check(t.Context(), w.event, user).Place, r.status(t.Context(), w.event, user)} {
			requirePlace(t, line.StatusNone, line.Cancelled, p, user)
		}
	}
	require.Zero(t, r.meter.figures.Active)
	for range 60 { // for a minute the end may be reverted
		require.Equal(t, int64(1), r.meter.figures.Waiting)
		w.second(r)
	}
	require.Zero(t, r.meter.figures.Waiting)

	other := w.event + "-over"
	tickets.setStatus(other, line.SaleClosed, now.Add(-48*time.Hour))
	p := r.check(t.Context(), other, "u").Place
	requirePlace(t, line.StatusNone, line.SaleClosed, p)
	n, err := w.client.Exists(t.Context(), "{"+other+"}:line").Result()
	require.NoError(t, err)
	require.Zero(t, n, "it gets none any more")
	require.Equal(t, line.SaleClosed, r.status(t.Context(), other, "u").Sale)
}

// Two replicas of the ticket service may report different statuses for a second; the later is used.
func TestLaterSaleReportWins(t *testing.T) {
	w := newTestEnv(t)
	knows, lags := &fakeTicket{}, &fakeTicket{}
	now := w.clock.Now()
	knows.setStatus(w.event, line.SalePaused, now)
	lags.setStatus(w.event, line.OnSale, now.Add(-time.Hour))
	a, b := w.replicaAsking(knows), w.replicaAsking(lags)
	a.open(t, w.event)
	require.Equal(t, line.StatusQueued, a.check(t.Context(), w.event, "u").Place.Status)
	lags.age = 2 * time.Second
	w.second(b)
	for _, r := range []*replica{a, b} {
		require.Equal(t, line.SalePaused, r.status(t.Context(), w.event, "u").Sale)
		require.Equal(t, line.SalePaused, r.lines(t)[0].Sale)
	}
	delete(lags.reports, w.event)
	w.second(b)
	require.Equal(t, line.SalePaused, b.status(t.Context(), w.event, "u").Sale, "that there is none is as old")
	lags.age = 0
	w.second(b)
	require.Equal(t, line.NoSale, b.status(t.Context(), w.event, "u").Sale)
}

// Of two sale reports the later is used, even if there is no line.
func TestLaterSaleReportWinsWithoutLine(t *testing.T) {
	w, tickets := newSaleEnv(t, line.SalePaused)
	now := w.clock.Now()
	r := w.replicaAsking(tickets)
	_, err := r.service.SaleClosed(t.Context(), w.event)
	require.NoError(t, err)
	tickets.setStatus(w.event, line.OnSale, now)
	tickets.age = 2 * time.Second
	w.second(r)
	require.Equal(t, line.SalePaused, r.lines(t)[0].Sale)
	w.second(r)
	w.second(r)
	require.Equal(t, line.OnSale, r.lines(t)[0].Sale)
}

// A new line admits nobody before its sale status is known.
func TestNewLineWaitsForItsSale(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	tickets.setError(errs.ErrUnavailable)
	r := w.replicaAsking(tickets)
	require.Equal(t, line.StatusQueued, r.check(t.Context(), w.event, "u").Place.Status)
	seconds := func(n int) string {
		for range n {
			w.second(r)
			r.worker.RefreshSettings(t.Context())
		}
		return r.status(t.Context(), w.event, "u").Status
	}
	require.Equal(t, line.StatusQueued, seconds(90))
	tickets.setError(nil)
	tickets.setStatus(w.event, line.Scheduled, w.clock.Now().Add(5*time.Second))
	require.Equal(t, line.StatusQueued, seconds(4))
	require.Equal(t, line.StatusActive, seconds(2))
}

// A replica reads the sale again before it refuses visitors because of an old report.
func TestOldEndOfSaleIsVerified(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	lineless, closed := w.event+"-none", w.clock.Now().Add(-48*time.Hour)
	for _, id := range []string{w.event, lineless} {
		tickets.setStatus(id, line.OnSale, w.clock.Now())
	}
	r := w.opened(tickets)
	for _, id := range []string{w.event, lineless} {
		tickets.setStatus(id, line.SaleClosed, closed)
	}
	w.second(r)
	for _, ask := range []func(string) line.Place{
		func(id string) line.Place { return r.check(t.Context(), id, "u").Place },
		func(id string) line.Place { return r.status(t.Context(), id, "v") },
	} {
		for _, id := range []string{w.event, lineless} {
			require.Equal(t, line.SaleClosed, r.check(t.Context(), id, "u").Place.Sale)
			tickets.setStatus(id, line.OnSale, w.clock.Now())
			w.clock.Advance(8 * time.Second)
			tickets.asked()
			require.Equal(t, line.OnSale, ask(id).Sale)
			require.Len(t, tickets.asked(), 1)
			tickets.setStatus(id, line.SaleClosed, closed)
			w.clock.Advance(time.Second)
			r.service.RefreshSales(t.Context())
		}
	}
	tickets.setError(errs.ErrUnavailable)
	w.clock.Advance(time.Hour)
	for _, id := range []string{w.event, lineless} {
		require.Equal(t, line.SaleClosed, r.check(t.Context(), id, "u").Place.Sale, "while ticket is away its last report counts")
	}
}

// A gateway drops the lines that the first message of a watch does not have. So a replica is ready
// only when it can send all lines.
func TestReadyAfterFirstReadOfSales(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	lineless, opens := w.event+"-none", w.clock.Now().Add(time.Hour)
	for _, id := range []string{w.event, lineless} {
		tickets.setStatus(id, line.Scheduled, opens)
	}
	a, b := w.replicaAsking(tickets), w.replicaAsking(tickets)
	a.open(t, w.event)
	_, err := a.service.SaleClosed(t.Context(), lineless)
	require.NoError(t, err)
	require.Error(t, b.worker.Ready(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.worker.RunSaleReads(ctx) }()
	testkit.Until(t, func() bool { return b.worker.Ready(t.Context()) == nil })
	require.ElementsMatch(t, a.lines(t), b.lines(t))
	require.Len(t, b.lines(t), 2)
	cancel()
	require.NoError(t, <-done)
}

// emptyStore is a store with one registered event, which has no line.
type emptyStore struct{ line.Store }

func (emptyStore) ListEvents(context.Context) ([]string, error) { return []string{"e"}, nil }

func (emptyStore) Peek(context.Context, string, line.KnownState) (line.LineState, error) {
	return line.LineState{}, nil
}

// silentTicket is a ticket service that does not answer.
type silentTicket struct{ directory }

func (*silentTicket) Sales(ctx context.Context, _ []string) (map[string]line.SaleReport, time.Duration, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

func TestReadyDuringOutageOfTicket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := line.NewService(line.Deps{
			Store: emptyStore{}, Cache: line.NewLineCache(time.Now), Events: &silentTicket{}, Sales: &silentTicket{}, Meter: &meter{},
			Rules: line.DefaultRules(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		})
		worker := line.NewWorker(s, time.Second, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- worker.RunSaleReads(ctx) }()
		time.Sleep(3*time.Second - time.Nanosecond)
		synctest.Wait()
		require.Error(t, worker.Ready(ctx))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.NoError(t, worker.Ready(ctx))
		cancel()
		require.NoError(t, <-done)
	})
}

// Tier 1 may be open for an event without a line. When it has called GetSale, all replicas send the
// sale status to gateways, without creating a line.
func TestSalesOfEventsWithoutLine(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	opens := w.clock.Now().Add(3 * time.Second)
	tickets.setStatus(w.event, line.Scheduled, opens)
	a, b := w.replicaAsking(tickets), w.replicaAsking(tickets)
	closed, err := a.service.SaleClosed(t.Context(), w.event)
	require.NoError(t, err)
	require.False(t, closed)
	want := []line.LineUpdate{{EventID: w.event, Sale: line.Scheduled}}
	require.Equal(t, want, a.lines(t), "at once where tier 1 asked")
	w.second(b)
	b.service.RefreshSales(t.Context())
	require.Equal(t, want, b.lines(t), "from the registry")

	tickets.setError(errs.ErrUnavailable)
	w.second(a, b)
	w.second(a, b)
	for _, r := range []*replica{a, b} {
		require.Equal(t, []line.LineUpdate{{EventID: w.event, Sale: line.OnSale}}, r.lines(t))
	}
	require.Empty(t, redistest.Keys(t, w.client, "{"+w.event+"}:*"))
	tickets.asked()
	for range 30 {
		w.clock.Advance(10 * time.Second)
		a.worker.Tick(t.Context())
		b.worker.Tick(t.Context())
	}
	b.service.RefreshSales(t.Context())
	require.Equal(t, [][]string{{w.event}}, tickets.asked(), "for as long as the registry names it")
}

// After a status request for an event without a line, the answers soon have the status of the sale.
// A page joins the line only then.
func TestStatusWithoutLineReturnsSaleStatus(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	tickets.setStatus(w.event, line.OnSale, w.clock.Now().Add(time.Hour))
	r := w.replicaAsking(tickets)
	testkit.Until(t, func() bool {
		w.second(r)
		return r.status(t.Context(), w.event, "u").Sale == line.Scheduled
	}, "the sale's status")
	requirePlace(t, line.StatusNone, line.Scheduled, r.status(t.Context(), w.event, "u"))
	require.Empty(t, r.status(t.Context(), "made-up", "u").Sale)
}
