package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// firstCall returns a function that returns true for its first call only.
func firstCall() func() bool {
	var done atomic.Bool
	return func() bool { return done.CompareAndSwap(false, true) }
}

func takeWithID(ctx context.Context, s *dynamo.Store, c room.Counters, id uuid.UUID) (room.Record, error) {
	return roomtest.Take(ctx, s, c, id.String(), id)
}

// requireStored checks that a record is stored as it was issued.
func requireStored(t *testing.T, s *dynamo.Store, want room.Record) {
	t.Helper()
	got, found, err := s.FindRecord(t.Context(), room.Counters{EventID: want.EventID}, want.RequestID)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, got)
}

// An ADD whose response is lost may have taken effect. A second attempt could add twice, so none is
// made: the visitor gets an error and tries again.
func TestLostCounterResponseIsNotRetried(t *testing.T) {
	t.Parallel()
	open := tables(t)
	first := firstCall()
	s := open(dynamotest.Hook{After: func(in, _ any) error {
		if isUpdate(in) && first() {
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	c := roomtest.StartRound(t, open(dynamotest.Hook{}), "lost-counter", room.DefaultSettings())
	id := uuid.New()
	_, err := takeWithID(t.Context(), s, c, id)
	require.Equal(t, errs.Unavailable, errs.From(err).Kind)
	require.Equal(t, int64(1), roomtest.Read(t, s, c.EventID).Issued, "the one that was counted")
	r, err := takeWithID(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, int64(2), r.Position)
}

// The SDK repeats an insert whose response is lost. The second attempt finds its own record, so the
// visitor gets the position without a gap or an error.
func TestLostRecordResponseIsRetried(t *testing.T) {
	t.Parallel()
	open := tables(t)
	first := firstCall()
	s := open(dynamotest.Hook{After: func(in, _ any) error {
		if isInsert(in) && first() {
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "lost-record", room.DefaultSettings())
	id := uuid.New()
	r, err := takeWithID(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Position)
	require.Equal(t, id, r.RequestID)
	requireStored(t, s, r)
}

// An error of one statement, which DynamoDB reports with status 200, fails only the statement's
// visitor. Throttled statements are sent again, and keep their positions.
func TestFailedStatementFailsOnlyItsVisitor(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	plain := awsdynamo.New(db.Options(), dynamotest.Hook{}.Options)
	unlucky, slow := uuid.New(), uuid.New()
	var throttled atomic.Int64
	hook := dynamotest.Hook{Answer: func(in any) any {
		inserts, ok := in.(*awsdynamo.BatchExecuteStatementInput)
		if !ok {
			return nil
		}
		out := &awsdynamo.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(inserts.Statements))}
		for i, statement := range inserts.Statements {
			var code types.BatchStatementErrorCodeEnum
			switch {
			case hasParameter(statement, unlucky):
				code = types.BatchStatementErrorCodeEnumInternalServerError
			case hasParameter(statement, slow) && throttled.Add(1) <= 2:
				code = types.BatchStatementErrorCodeEnumThrottlingError
			default:
				got, err := plain.BatchExecuteStatement(context.Background(), &awsdynamo.BatchExecuteStatementInput{Statements: []types.BatchStatementRequest{statement}})
				if err != nil || got.Responses[0].Error != nil {
					panic(fmt.Sprint(err, got))
				}
				continue
			}
			out.Responses[i].Error = &types.BatchStatementError{Code: code}
		}
		return out
	}}
	s := dynamo.New(awsdynamo.New(db.Options(), hook.Options), cfg, time.Now)
	c := roomtest.StartRound(t, s, "statements", room.DefaultSettings())
	ids := []uuid.UUID{unlucky, slow}
	for range 28 {
		ids = append(ids, uuid.New())
	}
	records, failures := make([]room.Record, len(ids)), make([]error, len(ids))
	var work sync.WaitGroup
	for i, id := range ids {
		work.Go(func() {
			if records[i], failures[i] = takeWithID(t.Context(), s, c, id); errors.Is(failures[i], errs.ErrOverloaded) { // on a busy machine
				records[i], failures[i] = roomtest.TakeWithRetry(t, s, c, id)
			}
		})
	}
	work.Wait()
	require.Equal(t, errs.Unavailable, errs.From(failures[0]).Kind)
	require.NoError(t, errors.Join(failures[1:]...))
	require.Equal(t, int64(3), throttled.Load())
	seen := map[int64]bool{}
	for _, r := range records[1:] {
		requireStored(t, s, r)
		require.False(t, seen[r.Position], "position %d twice", r.Position)
		seen[r.Position] = true
	}
	require.Equal(t, int64(len(ids)), roomtest.Read(t, s, c.EventID).Issued, "nobody got another position")
	require.NoError(t, s.Close(t.Context()))
}

func hasParameter(statement types.BatchStatementRequest, id uuid.UUID) bool {
	return slices.ContainsFunc(statement.Parameters, func(v types.AttributeValue) bool {
		text, ok := v.(*types.AttributeValueMemberS)
		return ok && text.Value == id.String()
	})
}

// If two replicas issue a position to one visitor at the same time, both return the record that was
// stored first.
func TestRacingReplicasReturnStoredPosition(t *testing.T) {
	t.Parallel()
	open := tables(t)
	g := newGate()
	slow, fast := open(dynamotest.Hook{Before: func(in any) error {
		if isInsert(in) {
			g.block()
		}
		return nil
	}}), open(dynamotest.Hook{})
	c := roomtest.StartRound(t, fast, "twins", room.DefaultSettings())
	id := uuid.New()
	var late room.Record
	var lateErr error
	var work sync.WaitGroup
	work.Go(func() { late, lateErr = takeWithID(t.Context(), slow, c, id) })
	g.awaitBlocked(t) // the slow replica has issued position 1 and not stored it
	early, err := takeWithID(t.Context(), fast, c, id)
	close(g.open)
	work.Wait()
	require.NoError(t, errors.Join(err, lateErr))
	require.Equal(t, int64(2), early.Position)
	require.Equal(t, early, late)
	next, err := takeWithID(t.Context(), slow, c, uuid.New())
	require.NoError(t, err)
	require.Equal(t, int64(3), next.Position, "the gap is not given out again")
}

// A visitor who cancels the call while the position is written gets it by the next call.
func TestPositionIsStoredAfterCallerCancels(t *testing.T) {
	t.Parallel()
	open := tables(t)
	g := newGate()
	s := open(dynamotest.Hook{Before: func(in any) error {
		if isInsert(in) {
			g.block()
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "impatient", room.DefaultSettings())
	id := uuid.New()
	ctx, giveUp := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := takeWithID(ctx, s, c, id)
		failed <- err
	}()
	g.awaitBlocked(t)
	giveUp()
	require.ErrorIs(t, <-failed, context.Canceled)
	close(g.open)
	r, err := takeWithID(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Position, "what was stored meanwhile")
}

// Under load DynamoDB may return keys as unprocessed. That does not mean that the items are absent.
func TestUnprocessedKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	open := tables(t)
	var reads atomic.Int64
	s := open(dynamotest.Hook{After: func(in, out any) error {
		request, isRead := in.(*awsdynamo.BatchGetItemInput)
		if got, ok := out.(*awsdynamo.BatchGetItemOutput); isRead && ok && reads.Add(1)%2 == 1 {
			got.Responses, got.UnprocessedKeys = nil, request.RequestItems
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "left-out", room.DefaultSettings())
	id := uuid.New()
	r, err := takeWithID(t.Context(), open(dynamotest.Hook{}), c, id)
	require.NoError(t, err)
	requireStored(t, s, r)
	again, err := takeWithID(t.Context(), s, c, id)
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Equal(t, int64(1), roomtest.Read(t, s, c.EventID).Issued, "who is known is not counted again")
}

// A record whose partition stays throttled fails only its own visitor.
func TestThrottledReadFailsOnlyItsVisitor(t *testing.T) {
	t.Parallel()
	open := tables(t)
	var throttled atomic.Value // the request id that is never read
	throttled.Store("")
	s := open(dynamotest.Hook{After: func(in, out any) error {
		request, isRead := in.(*awsdynamo.BatchGetItemInput)
		got, ok := out.(*awsdynamo.BatchGetItemOutput)
		if !isRead || !ok {
			return nil
		}
		for table, keys := range request.RequestItems {
			for _, key := range keys.Keys {
				if id, isID := key["requestId"].(*types.AttributeValueMemberS); isID && id.Value == throttled.Load() {
					got.UnprocessedKeys = map[string]types.KeysAndAttributes{table: {Keys: []map[string]types.AttributeValue{key}, ConsistentRead: keys.ConsistentRead}}
					got.Responses[table] = slices.DeleteFunc(got.Responses[table], func(it map[string]types.AttributeValue) bool {
						return it["requestId"].(*types.AttributeValueMemberS).Value == id.Value //nolint:forcetypeassert // the sort key
					})
				}
			}
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "throttled", room.DefaultSettings())
	takers := make([]room.Taker, 5)
	for i := range takers {
		takers[i] = room.Taker{Visitor: fmt.Sprint("v", i), IDs: []uuid.UUID{uuid.New()}}
	}
	first := s.TakePositions(t.Context(), c, takers)
	throttled.Store(takers[2].IDs[0].String())
	again := s.TakePositions(t.Context(), c, takers)
	var work sync.WaitGroup
	found := make([]room.Outcome[room.Record], len(takers)) // by one group of reads
	for i, taker := range takers {
		work.Go(func() {
			found[i].Value, _, found[i].Err = s.FindRecord(t.Context(), c, taker.IDs[0])
		})
	}
	work.Wait()
	for i := range takers {
		require.NoError(t, first[i].Err)
		if i == 2 {
			require.ErrorIs(t, found[i].Err, room.ErrUnavailable)
			require.ErrorIs(t, again[i].Err, room.ErrUnavailable)
			continue
		}
		require.Equal(t, first[i], found[i])
		require.Equal(t, first[i], again[i])
	}
	require.Equal(t, int64(5), roomtest.Read(t, s, c.EventID).Issued, "nobody gets a second position")
}

// All reads of positions and counters are consistent and by key.
func TestReadsAreConsistentAndByKey(t *testing.T) {
	t.Parallel()
	open := tables(t)
	var mu sync.Mutex
	var others []string
	s := open(dynamotest.Hook{Before: func(in any) error {
		mu.Lock()
		defer mu.Unlock()
		switch in := in.(type) {
		case *awsdynamo.BatchGetItemInput:
			for table, keys := range in.RequestItems {
				if !aws.ToBool(keys.ConsistentRead) {
					others = append(others, "a read of "+table+" that may be old")
				}
			}
		case *awsdynamo.UpdateItemInput, *awsdynamo.BatchExecuteStatementInput, *awsdynamo.TransactWriteItemsInput:
		default:
			others = append(others, fmt.Sprintf("%T", in))
		}
		return nil
	}})
	ctx := t.Context()
	c := roomtest.StartRound(t, s, "consistent", room.DefaultSettings())
	r, err := takeWithID(ctx, s, c, uuid.New())
	require.NoError(t, err)
	_, _, findErr := s.FindRecord(ctx, c, r.RequestID)
	_, activeErr := s.ReadActive(ctx, nil)
	_, manyErr := s.ReadMany(ctx, []string{c.EventID, c.EventID, "another"})
	require.NoError(t, errors.Join(findErr, activeErr, manyErr, s.SetServing(ctx, c, 1), s.Stop(ctx, c.EventID, c.Round)))
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, others)
}

// A failed write of a claim set is repeated, so that visitors do not seem to have left while the
// store is slow. Positions at the boundaries of a set are counted.
func TestClaimsRetryFailedWrites(t *testing.T) {
	t.Parallel()
	open := tables(t)
	var failed atomic.Int64
	s := open(dynamotest.Hook{Before: func(in any) error {
		if u, ok := in.(*awsdynamo.UpdateItemInput); ok && u.ReturnValues == types.ReturnValueUpdatedOld && failed.Add(1) <= 3 {
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "failed-claims", room.DefaultSettings())
	claims := dynamo.NewClaims(s)
	stop := runClaims(t, claims)
	positions := []int64{1, 499, 500, 501, 999, 1000, 1 << 40}
	for _, p := range positions {
		claims.RecordClaim(room.Record{EventID: c.EventID, Round: c.Round, RequestID: uuid.New(), Position: p})
	}
	testkit.Until(t, func() bool {
		n, err := s.ClaimCount(t.Context(), c.EventID, c.Round)
		return err == nil && n >= int64(len(positions))
	}, "all claims")
	stop()
	require.Equal(t, int64(len(positions)), claimed(t, claims, c))
}
