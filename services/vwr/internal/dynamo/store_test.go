package dynamo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// tables makes fresh tables and returns a way to open stores over them that write perWrite records together.
func tables(t *testing.T, perWrite int) func(...func(*awsdynamo.Options)) *dynamo.Store {
	t.Helper()
	cfg, db := dynamotest.Tables(t)
	for range 2 { // a second run changes nothing
		if err := dynamo.Migrate(t.Context(), db, cfg); err != nil {
			t.Fatal(err)
		}
	}
	return func(opts ...func(*awsdynamo.Options)) *dynamo.Store {
		s := dynamo.New(awsdynamo.New(db.Options(), opts...), cfg, perWrite, time.Now)
		t.Cleanup(func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, perWrite := range map[string]int{"record by record": 1, "together": dynamo.MaxPerWrite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := tables(t, perWrite)
			roomtest.Suite(t, func(*testing.T) roomtest.Store { return open() })
		})
	}
}

// A replica that dies between the counter's write and the records' leaves gaps; nobody is told a position that is not stored, nobody
// gets another's, and who asks again gets one behind.
func TestLostPutsLeaveGaps(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	var down atomic.Bool
	dying, other := open(tap{before: func(in any) error {
		if isPut(in) && down.Load() {
			return errCut
		}
		return nil
	}}.options), open()
	const event = "gaps"
	c := roomtest.Open(t, other, event, room.DefaultSettings())
	take := func(s *dynamo.Store, id uuid.UUID) (room.Record, error) {
		return s.Take(t.Context(), event, c.Round, id.String(), []uuid.UUID{id})
	}
	before, err := take(dying, uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	var lost []uuid.UUID
	for range 5 {
		id := uuid.New()
		lost = append(lost, id)
		if _, err := take(dying, id); errs.From(err).Kind != errs.Unavailable {
			t.Fatalf("a position that was not stored: %v, want unavailable", err)
		}
	}
	if n := roomtest.Read(t, other, event).Issued; n != 6 {
		t.Fatalf("issued %d, want 6: one stored, five gaps", n)
	}
	last := before.Position
	for _, id := range lost {
		if _, found, err := other.Find(t.Context(), event, id); found || err != nil {
			t.Errorf("a record of a lost put: %v, %v", found, err)
		}
		r, err := take(other, id)
		if err != nil || r.Position <= 6 || r.Position <= last {
			t.Errorf("again: position %d, %v, want one above 6 and %d", r.Position, err, last)
		}
		last = r.Position
	}
}

// Visitors who arrive one after the other at one replica get positions in that order, though they are written in groups, and the
// counter is written far less often than they come.
func TestGroupsKeepOrder(t *testing.T) {
	t.Parallel()
	s := tables(t, 1)()
	const event, visitors = "order", 200
	c := roomtest.Open(t, s, event, room.DefaultSettings())
	positions := make([]int64, visitors)
	var work sync.WaitGroup
	start := time.Now()
	for i := range visitors {
		arrived := make(chan struct{})
		work.Go(func() {
			close(arrived)
			r, err := s.Take(t.Context(), event, c.Round, fmt.Sprint(i), []uuid.UUID{uuid.New()})
			if err != nil {
				t.Error(err)
			}
			positions[i] = r.Position
		})
		<-arrived
		if i%20 == 19 { // what has arrived together has no order; the next twenty come later
			waitIssued(t, s, event, int64(i+1))
		}
	}
	work.Wait()
	for i := 20; i < visitors; i++ {
		before := positions[i/20*20-20 : i/20*20]
		if positions[i] <= slices.Max(before) {
			t.Errorf("visitor %d got %d, though %v came before", i, positions[i], before)
		}
	}
	t.Logf("%d positions in %v", visitors, time.Since(start))
}

func waitIssued(t *testing.T, s *dynamo.Store, event string, n int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if roomtest.Read(t, s, event).Issued >= n {
			return
		}
	}
	t.Fatalf("%d positions were not given out in time", n)
}

// Those who arrive while a group is written are the next group, and cost one write of the counter.
func TestGroupsShareACounterWrite(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	s := tables(t, dynamo.MaxPerWrite)(tap{before: func(in any) error {
		if isUpdate(in) {
			writes.Add(1)
		}
		return nil
	}}.options)
	c := roomtest.Open(t, s, "groups", room.DefaultSettings())
	const crowd = 500
	takeMany(t, s, c, 0, crowd)
	if n := writes.Load(); n > crowd/10 {
		t.Errorf("%d positions cost %d writes of the counter", crowd, n)
	}
}

// A position counts as claimed once, however often and wherever its visitor fetches a token.
func TestClaimsCountOnce(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	a, b := open(), open()
	const event, visitors = "claims", 30
	c := roomtest.Open(t, a, event, room.DefaultSettings())
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	counters := []*dynamo.Claims{dynamo.NewClaims(a), dynamo.NewClaims(b)}
	for _, claims := range counters {
		work.Go(func() {
			if err := claims.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range visitors {
		r, err := a.Take(ctx, event, c.Round, fmt.Sprint(i), []uuid.UUID{uuid.New()})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			counters[0].Claim(r)
			counters[1].Claim(r)
		}
	}
	// The same position under another key, as after a change of secrets, is still one position.
	counters[0].Claim(room.Record{EventID: event, Round: c.Round, RequestID: uuid.New(), Position: 1, Visitor: "0"})
	// What comes after the end of a round does not count for the next.
	counters[1].Claim(room.Record{EventID: event, Round: c.Round - 1, RequestID: uuid.New(), Position: 1, Visitor: "late"})
	stop() // what waits is written all the same
	work.Wait()
	if n := roomtest.Read(t, a, event).Claimed; n != visitors {
		t.Errorf("claimed %d, want %d", n, visitors)
	}
}
