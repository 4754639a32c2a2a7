package draw_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo"
	"urr.guru/services/worker/internal/dynamo/drawtest"
)

// cutoff is in the future, so that DynamoDB expires no item.
var cutoff = time.Date(2040, 3, 7, 12, 0, 0, 0, time.UTC)

const (
	after     = 30 * time.Second
	round     = drawtest.Round
	announced = drawtest.Announced
	ranked    = announced - 5*time.Minute
	settles   = announced + 10*time.Second
	winners   = drawtest.Winners
)

// source publishes rounds by the test's clock.
type source struct {
	*beacontest.Beacon
	clock *testkit.Clock

	mu     sync.Mutex
	silent bool
	asked  int
}

func (s *source) Get(_ context.Context, chain beacon.Chain, number uint64) (beacon.Round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.silent || chain.TimeOf(number).After(s.clock.Now()) {
		return beacon.Round{}, beacon.ErrNotPublished
	}
	return s.Round(number), nil
}

func (s *source) Check(_ context.Context, chain beacon.Chain, _ time.Time) error {
	switch {
	case s.silent:
		return beacon.ErrUnchecked
	case chain != s.Chain():
		return beacon.ErrChain
	}
	return nil
}

// figures is a Meter that keeps the figures of the last pass.
type figures struct {
	mu   sync.Mutex
	last draw.Figures
}

func (f *figures) SetFigures(now draw.Figures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = now
}

func keyConfig(n byte) fairdraw.KeyConfig { return drawtest.KeyConfig(n) }

// otherSigningKey is the first set of secrets without the signing key of the lotteries.
func otherSigningKey() fairdraw.KeyConfig {
	c := keyConfig(1)
	c.DrawStatementKeys = "other:" + "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
	return c
}

// environment is a table with a lottery.
type environment struct {
	tables  pkgdynamo.Config
	db      *awsdynamo.Client
	clock   *testkit.Clock
	store   *dynamo.Store
	keys    *fairdraw.Keyring
	source  *source
	figures *figures
	event   string
	entries []promotion.Request
	skew    time.Duration // the known error of the clock
}

// newEnvironment opens a lottery; change may alter its terms.
func newEnvironment(t *testing.T, change func(*fairdraw.Commitment)) *environment {
	t.Helper()
	w := &environment{clock: testkit.NewClock(cutoff.Add(-time.Minute)), figures: &figures{}}
	b, err := drawtest.Beacon()
	require.NoError(t, err)
	w.source = &source{Beacon: b, clock: w.clock}
	w.keys, err = fairdraw.NewKeyring(keyConfig(1))
	require.NoError(t, err)
	tables, db := dynamotest.Tables(t)
	w.tables, w.db = tables, dynamotest.SoleWriter(db, table.PK)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), w.db, table.Table(w.tables)))
	w.store = w.open(dynamotest.Hook{})
	w.event = drawtest.OpenLottery(t, w.store, cutoff, change)
	return w
}

func (w *environment) open(hook dynamotest.Hook) *dynamo.Store {
	return dynamo.New(awsdynamo.New(w.db.Options(), hook.Options), w.tables, w.clock.Now, func(int) {})
}

// store combines the interfaces that a Drawer needs.
type store interface {
	draw.Draws
	draw.Lotteries
	draw.Requests
	draw.Results
}

func (w *environment) drawer(s store) *draw.Drawer {
	stores := draw.Stores{Draws: s, Lotteries: s, Requests: s, Results: s}
	return draw.New(stores, w.source, w.keys, w.figures, draw.Options{After: after, Now: w.clock.Now, Skew: func() time.Duration { return w.skew }}, slog.New(slog.DiscardHandler))
}

func (w *environment) lottery(t *testing.T) draw.Lottery {
	t.Helper()
	return drawtest.Read(t, w.store, w.event)
}

// received stores a request that is not processed yet.
func (w *environment) received(t *testing.T) promotion.Request {
	t.Helper()
	return drawtest.AddUnsettled(t, w.store, w.event)
}

func (w *environment) change(t *testing.T, c promotion.Change) {
	t.Helper()
	require.NoError(t, w.store.Change(t.Context(), c))
}

// enter stores n entries of the lottery.
func (w *environment) enter(t *testing.T, n int) {
	t.Helper()
	w.entries = append(w.entries, drawtest.AddEntries(t, w.store, w.event, n)...)
}

// pass moves the clock to a time after the cutoff, and runs a pass. It returns the draw's phase.
func (w *environment) pass(t *testing.T, sinceCutoff time.Duration) promotion.DrawPhase {
	t.Helper()
	w.clock.Set(cutoff.Add(sinceCutoff))
	require.NoError(t, w.drawer(w.store).Pass(t.Context()))
	require.Zero(t, w.figures.last.Failing)
	return w.lottery(t).Draw.Phase
}

func (w *environment) verify(t *testing.T) *fairdraw.VerificationReport {
	t.Helper()
	return drawtest.Verify(t, w.store, w.event)
}

func (w *environment) winners(t *testing.T) []uuid.UUID {
	t.Helper()
	ids, err := w.store.Winners(t.Context(), new(w.lottery(t).Draw))
	require.NoError(t, err)
	return ids
}

// ofType reads the whole table, which only tests do, and returns the items of a type.
func (w *environment) ofType(t *testing.T, entity string) []pkgdynamo.Item {
	t.Helper()
	var out []pkgdynamo.Item
	pages := awsdynamo.NewScanPaginator(w.db, &awsdynamo.ScanInput{TableName: &w.store.Table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, it := range page.Items {
			d := pkgdynamo.Reader{Item: it}
			if d.String("entityType") == entity {
				out = append(out, it)
			}
		}
	}
	return out
}

// requireHidden checks that nothing outside the draw's own items reveals a result.
func (w *environment) requireHidden(t *testing.T) {
	t.Helper()
	require.Empty(t, w.ofType(t, "OUTBOX"), "nothing is on its way to the topic")
	for _, it := range w.ofType(t, "REQUEST") {
		r, err := table.DecodeRequest(it)
		require.NoError(t, err)
		require.False(t, r.Status.Final())
	}
	counts, err := table.DecodeCounts(w.ofType(t, "COUNTS"))
	require.NoError(t, err)
	require.Empty(t, counts.Results)
	l := w.lottery(t)
	d, err := l.Draw.Document(&l.Promotion)
	require.NoError(t, err)
	require.Empty(t, d.Seed)
	require.False(t, l.Draw.Announced())
	require.NotContains(t, []fairdraw.Phase{fairdraw.PhaseDrawn, fairdraw.PhaseSettled}, d.Phase)
}

// requireResults checks that each entry has the result of the draw, once, and that each end was
// announced, those of the winners before the others.
func (w *environment) requireResults(t *testing.T) {
	t.Helper()
	won := map[string]bool{}
	for _, id := range w.winners(t) {
		won[id.String()] = true
	}
	announced := map[string]int{}
	var lastWinner, firstLoser string
	for _, it := range w.ofType(t, "OUTBOX") {
		o, err := table.DecodeOutbox(it)
		require.NoError(t, err)
		key := pkgdynamo.Reader{Item: it}
		_, id, _ := bytes.Cut([]byte(key.String(table.SK)), []byte("#")) // UUIDv7: in the order of the transactions
		for _, row := range o.Rows {
			announced[row.RequestID]++
			if won[row.RequestID] {
				lastWinner = max(lastWinner, string(id))
			} else if firstLoser == "" || string(id) < firstLoser {
				firstLoser = string(id)
			}
		}
	}
	if firstLoser != "" {
		require.Less(t, lastWinner, firstLoser, "winners first")
	}
	for _, e := range w.entries {
		r, _, err := w.store.Request(t.Context(), e.RequestID)
		require.NoError(t, err)
		if won[e.RequestID] {
			require.Equal(t, promotion.Success, r.ResultCode)
		} else {
			require.Equal(t, promotion.RejectedLotteryLose, r.ResultCode)
		}
		require.Equal(t, 1, announced[e.RequestID])
	}
	require.Len(t, won, min(len(w.entries), winners))
	counts, err := table.DecodeCounts(w.ofType(t, "COUNTS"))
	require.NoError(t, err)
	require.Zero(t, counts.Unsettled())
	require.Zero(t, counts.Entered)
	require.Empty(t, w.ofType(t, "OPEN_DRAW"))
	require.Empty(t, w.ofType(t, "MARKER"))
}
