package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// once returns a function that is true for the first call only.
func once() func() bool {
	var done atomic.Bool
	return func() bool { return done.CompareAndSwap(false, true) }
}

func takeFor(ctx context.Context, s *dynamo.Store, c room.Counters, id uuid.UUID) (room.Record, error) {
	return s.Take(ctx, c.EventID, c.Round, id.String(), []uuid.UUID{id})
}

// An ADD whose answer is lost may have counted. Sent again it would count twice, so it is not: the visitor is told to come again.
func TestLostAnswerOfTheCounterIsNotRepeated(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	first := once()
	s := open(tap{after: func(in, _ any) error {
		if isUpdate(in) && first() {
			return errCut
		}
		return nil
	}}.options)
	c := roomtest.Open(t, open(), "lost-counter", room.DefaultSettings())
	id := uuid.New()
	if r, err := takeFor(t.Context(), s, c, id); errs.From(err).Kind != errs.Unavailable {
		t.Fatalf("got %+v, %v, want unavailable", r, err)
	}
	if n := roomtest.Read(t, s, c.EventID).Issued; n != 1 {
		t.Errorf("issued %d, want the 1 that was counted", n)
	}
	if r, err := takeFor(t.Context(), s, c, id); err != nil || r.Position != 2 {
		t.Errorf("again: %+v, %v, want position 2", r, err)
	}
}

// A record whose answer is lost is put again by the SDK, meets itself, and is what the visitor gets: no gap, no 503.
func TestLostAnswerOfARecordIsRepeated(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	first := once()
	s := open(tap{after: func(in, _ any) error {
		if isPut(in) && first() {
			return errCut
		}
		return nil
	}}.options)
	c := roomtest.Open(t, s, "lost-record", room.DefaultSettings())
	id := uuid.New()
	r, err := takeFor(t.Context(), s, c, id)
	if err != nil || r.Position != 1 || r.RequestID != id {
		t.Errorf("got %+v, %v, want position 1", r, err)
	}
	if stored, ok, err := s.Find(t.Context(), c.EventID, id); err != nil || !ok || stored != r {
		t.Errorf("stored %+v, %v, %v, want %+v", stored, ok, err, r)
	}
}

// Two replicas give a position to one visitor at once: the record that is stored first is the answer of both.
func TestRacingTwinGetsTheStoredPosition(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	g := newGate()
	slow, fast := open(tap{before: func(in any) error {
		if isPut(in) {
			g.pass()
		}
		return nil
	}}.options), open()
	c := roomtest.Open(t, fast, "twins", room.DefaultSettings())
	id := uuid.New()
	var late room.Record
	var lateErr error
	var work sync.WaitGroup
	work.Go(func() { late, lateErr = takeFor(t.Context(), slow, c, id) })
	g.await(t) // the slow replica has position 1 and has not stored it
	early, err := takeFor(t.Context(), fast, c, id)
	close(g.open)
	work.Wait()
	if err != nil || lateErr != nil || early.Position != 2 || late != early {
		t.Errorf("got %+v, %v and %+v, %v, want position 2 twice", early, err, late, lateErr)
	}
	if r, err := takeFor(t.Context(), slow, c, uuid.New()); err != nil || r.Position != 3 {
		t.Errorf("the next visitor: %+v, %v, want position 3: the gap is not given out again", r, err)
	}
}

// Who gives up while the position is being written finds it again.
func TestPositionOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	g := newGate()
	s := open(tap{before: func(in any) error {
		if isPut(in) {
			g.pass()
		}
		return nil
	}}.options)
	c := roomtest.Open(t, s, "impatient", room.DefaultSettings())
	id := uuid.New()
	ctx, giveUp := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := takeFor(ctx, s, c, id)
		failed <- err
	}()
	g.await(t)
	giveUp()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("who gave up got %v", err)
	}
	close(g.open)
	if r, err := takeFor(t.Context(), s, c, id); err != nil || r.Position != 1 {
		t.Errorf("again: %+v, %v, want the position 1 that was stored meanwhile", r, err)
	}
}

// DynamoDB may leave keys of a read out, under load; left out is not absent.
func TestKeysThatAreLeftOutAreAskedForAgain(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	var reads atomic.Int64
	s := open(tap{after: func(in, out any) error {
		asked, isRead := in.(*awsdynamo.BatchGetItemInput)
		if got, ok := out.(*awsdynamo.BatchGetItemOutput); isRead && ok && reads.Add(1)%2 == 1 {
			got.Responses, got.UnprocessedKeys = nil, asked.RequestItems
		}
		return nil
	}}.options)
	c := roomtest.Open(t, s, "left-out", room.DefaultSettings())
	id := uuid.New()
	r, err := takeFor(t.Context(), open(), c, id)
	if err != nil {
		t.Fatal(err)
	}
	if found, ok, err := s.Find(t.Context(), c.EventID, id); err != nil || !ok || found != r {
		t.Errorf("found %+v, %v, %v, want %+v", found, ok, err, r)
	}
	if again, err := takeFor(t.Context(), s, c, id); err != nil || again != r {
		t.Errorf("again: %+v, %v, want %+v", again, err, r)
	}
	if n := roomtest.Read(t, s, c.EventID).Issued; n != 1 {
		t.Errorf("issued %d, want 1: who is known is not counted again", n)
	}
}

// Whatever decides over a position or a counter is read consistently, by key: never a scan, never an old copy.
func TestReadsAreConsistentAndByKey(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	s := open(tap{before: func(in any) error {
		switch in := in.(type) {
		case *awsdynamo.BatchGetItemInput:
			for table, keys := range in.RequestItems {
				if !aws.ToBool(keys.ConsistentRead) {
					t.Errorf("a read of %s that may be old", table)
				}
			}
		case *awsdynamo.UpdateItemInput, *awsdynamo.PutItemInput, *awsdynamo.TransactWriteItemsInput:
		default:
			t.Errorf("a call of the kind %T", in)
		}
		return nil
	}}.options)
	ctx := t.Context()
	c := roomtest.Open(t, s, "consistent", room.DefaultSettings())
	r, err := takeFor(ctx, s, c, uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	_, _, findErr := s.Find(ctx, c.EventID, r.RequestID)
	_, activeErr := s.Active(ctx, nil)
	_, manyErr := s.ReadMany(ctx, []string{c.EventID, c.EventID, "another"})
	if err := errors.Join(findErr, activeErr, manyErr, s.Serve(ctx, c, 1), s.Stop(ctx, c.EventID, c.Round)); err != nil {
		t.Error(err)
	}
}

// A replica that hangs between reading and writing for as long as it likes neither moves the counter back nor adds to what others did.
func TestPausedReplicaChangesNothing(t *testing.T) {
	t.Parallel()
	open := tables(t, dynamo.MaxPerWrite)
	g := newGate()
	paused, other := open(tap{before: func(in any) error {
		if isUpdate(in) {
			g.pass()
		}
		return nil
	}}.options), open()
	c := roomtest.Open(t, other, "paused", room.DefaultSettings())
	for i := range 400 / 20 {
		takeMany(t, other, c, i, 20)
	}
	var clock atomic.Int64
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	a, b := newAdvancer(room.NewBoard(), unhurried{paused}, now), newAdvancer(room.NewBoard(), unhurried{other}, now)
	step := func(v *room.Advancer) {
		if err := v.Step(context.Background()); err != nil {
			t.Error(err)
		}
	}
	step(a)
	step(b)
	clock.Add(int64(time.Second))
	var work sync.WaitGroup
	work.Go(func() { step(a) })
	g.await(t) // it has read 0 and wants to write 50
	step(b)
	clock.Add(int64(time.Second))
	step(b)
	close(g.open)
	work.Wait()
	if got := roomtest.Read(t, other, c.EventID).Serving; got != 100 {
		t.Errorf("served %d in 2 s at 50/s, want 100", got)
	}
	if lost := a.Stats().Lost.Load(); lost != 1 {
		t.Errorf("the paused replica lost %d writes, want 1", lost)
	}
	step(a)
	if got := roomtest.Read(t, other, c.EventID).Serving; got != 100 {
		t.Errorf("served %d: the paused replica made up for its pause", got)
	}
}

func takeMany(t *testing.T, s *dynamo.Store, c room.Counters, from, n int) {
	t.Helper()
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			takeOne(t, s, c, fmt.Sprint(from, i))
		})
	}
	work.Wait()
}

// takeOne comes as a new visitor, and again while a slow store is too busy.
func takeOne(t *testing.T, s *dynamo.Store, c room.Counters, visitor string) {
	t.Helper()
	ids := []uuid.UUID{uuid.New()}
	_, err := s.Take(t.Context(), c.EventID, c.Round, visitor, ids)
	for errors.Is(err, errs.ErrOverloaded) {
		<-time.After(10 * time.Millisecond)
		_, err = s.Take(t.Context(), c.EventID, c.Round, visitor, ids)
	}
	if err != nil {
		t.Error(err)
	}
}

// unhurried is a store that lets a replica hang for longer than a step may take.
type unhurried struct{ *dynamo.Store }

func (u unhurried) Active(ctx context.Context, also []string) ([]room.Counters, error) {
	return u.Store.Active(context.WithoutCancel(ctx), also)
}

func (u unhurried) Serve(ctx context.Context, seen room.Counters, to int64) error {
	return u.Store.Serve(context.WithoutCancel(ctx), seen, to)
}

// A set that cannot be written is tried again: a slow store must not look like visitors who have left. Positions on both sides of a set's
// end count too.
func TestClaimsSurviveAFailedWrite(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	var failed atomic.Int64
	s := open(tap{before: func(in any) error {
		if u, ok := in.(*awsdynamo.UpdateItemInput); ok && u.ReturnValues == types.ReturnValueUpdatedOld && failed.Add(1) <= 3 {
			return errCut
		}
		return nil
	}}.options)
	c := roomtest.Open(t, s, "failed-claims", room.DefaultSettings())
	ctx, stop := context.WithCancel(t.Context())
	claims := dynamo.NewClaims(s)
	var work sync.WaitGroup
	work.Go(func() {
		if err := claims.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	positions := []int64{1, 499, 500, 501, 999, 1000, 1 << 40}
	for _, p := range positions {
		claims.Claim(room.Record{EventID: c.EventID, Round: c.Round, RequestID: uuid.New(), Position: p})
	}
	for deadline := time.Now().Add(time.Minute); roomtest.Read(t, s, c.EventID).Claimed < int64(len(positions)); {
		if time.Now().After(deadline) {
			t.Fatalf("claimed %d, want %d", roomtest.Read(t, s, c.EventID).Claimed, len(positions))
		}
	}
	stop()
	work.Wait()
	if n := roomtest.Read(t, s, c.EventID).Claimed; n != int64(len(positions)) {
		t.Errorf("claimed %d, want %d", n, len(positions))
	}
}
