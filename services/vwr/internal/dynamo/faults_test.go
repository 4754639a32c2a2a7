package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/waittest"
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

// requireStored requires that a record is found as it was given out.
func requireStored(t *testing.T, s *dynamo.Store, want room.Record) {
	t.Helper()
	got, found, err := s.Find(t.Context(), want.EventID, want.RequestID)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, got)
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
	}})
	c := roomtest.Open(t, open(tap{}), "lost-counter", room.DefaultSettings())
	id := uuid.New()
	_, err := takeFor(t.Context(), s, c, id)
	require.Equal(t, errs.Unavailable, errs.From(err).Kind)
	require.Equal(t, int64(1), roomtest.Read(t, s, c.EventID).Issued, "the one that was counted")
	r, err := takeFor(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, int64(2), r.Position)
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
	}})
	c := roomtest.Open(t, s, "lost-record", room.DefaultSettings())
	id := uuid.New()
	r, err := takeFor(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Position)
	require.Equal(t, id, r.RequestID)
	requireStored(t, s, r)
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
	}}), open(tap{})
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
	require.NoError(t, errors.Join(err, lateErr))
	require.Equal(t, int64(2), early.Position)
	require.Equal(t, early, late)
	next, err := takeFor(t.Context(), slow, c, uuid.New())
	require.NoError(t, err)
	require.Equal(t, int64(3), next.Position, "the gap is not given out again")
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
	}})
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
	require.ErrorIs(t, <-failed, context.Canceled)
	close(g.open)
	r, err := takeFor(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Position, "what was stored meanwhile")
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
	}})
	c := roomtest.Open(t, s, "left-out", room.DefaultSettings())
	id := uuid.New()
	r, err := takeFor(t.Context(), open(tap{}), c, id)
	require.NoError(t, err)
	requireStored(t, s, r)
	again, err := takeFor(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Equal(t, int64(1), roomtest.Read(t, s, c.EventID).Issued, "who is known is not counted again")
}

// Whatever decides over a position or a counter is read consistently, by key: never a scan, never an old copy.
func TestReadsAreConsistentAndByKey(t *testing.T) {
	t.Parallel()
	open := tables(t, 1)
	var mu sync.Mutex
	var others []string
	s := open(tap{before: func(in any) error {
		mu.Lock()
		defer mu.Unlock()
		switch in := in.(type) {
		case *awsdynamo.BatchGetItemInput:
			for table, keys := range in.RequestItems {
				if !aws.ToBool(keys.ConsistentRead) {
					others = append(others, "a read of "+table+" that may be old")
				}
			}
		case *awsdynamo.UpdateItemInput, *awsdynamo.PutItemInput, *awsdynamo.TransactWriteItemsInput:
		default:
			others = append(others, fmt.Sprintf("%T", in))
		}
		return nil
	}})
	ctx := t.Context()
	c := roomtest.Open(t, s, "consistent", room.DefaultSettings())
	r, err := takeFor(ctx, s, c, uuid.New())
	require.NoError(t, err)
	_, _, findErr := s.Find(ctx, c.EventID, r.RequestID)
	_, activeErr := s.Active(ctx, nil)
	_, manyErr := s.ReadMany(ctx, []string{c.EventID, c.EventID, "another"})
	require.NoError(t, errors.Join(findErr, activeErr, manyErr, s.Serve(ctx, c, 1), s.Stop(ctx, c.EventID, c.Round)))
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, others)
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
	}})
	c := roomtest.Open(t, s, "failed-claims", room.DefaultSettings())
	claims := dynamo.NewClaims(s)
	stop := counting(t, claims)
	positions := []int64{1, 499, 500, 501, 999, 1000, 1 << 40}
	for _, p := range positions {
		claims.Claim(room.Record{EventID: c.EventID, Round: c.Round, RequestID: uuid.New(), Position: p})
	}
	waittest.Until(t, func() bool { return roomtest.Read(t, s, c.EventID).Claimed >= int64(len(positions)) }, "all claims")
	stop()
	require.Equal(t, int64(len(positions)), roomtest.Read(t, s, c.EventID).Claimed)
}
