package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// tables creates tables. It returns a function that opens a store on them.
func tables(t *testing.T) func(dynamotest.Hook) *dynamo.Store {
	t.Helper()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	return func(p dynamotest.Hook) *dynamo.Store {
		s := dynamo.New(awsdynamo.New(db.Options(), p.Options), cfg, time.Now)
		t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
		return s
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	open := tables(t)
	roomtest.Suite(t, func(*testing.T) roomtest.Store { return open(dynamotest.Hook{}) })
}

// Failed writes of records leave gaps. No visitor gets a position that is not stored or belongs to
// another visitor. A repeated call gets a later position.
func TestLostPutsLeaveGaps(t *testing.T) {
	t.Parallel()
	open := tables(t)
	var down atomic.Bool
	dying, other := open(dynamotest.Hook{Before: func(in any) error {
		if isInsert(in) && down.Load() {
			return dynamotest.ErrConnReset
		}
		return nil
	}}), open(dynamotest.Hook{})
	const event = "gaps"
	c := roomtest.StartRound(t, other, event, room.DefaultSettings())
	take := func(s *dynamo.Store, id uuid.UUID) (room.Record, error) {
		return roomtest.Take(t.Context(), s, c, id.String(), id)
	}
	before, err := take(dying, uuid.New())
	require.NoError(t, err)
	require.Equal(t, int64(1), before.Position)
	down.Store(true)
	var lost []uuid.UUID
	for range 5 {
		id := uuid.New()
		lost = append(lost, id)
		_, err := take(dying, id)
		require.Equal(t, errs.Unavailable, errs.From(err).Kind, "a position that was not stored")
	}
	require.Equal(t, int64(6), roomtest.Read(t, other, event).Issued, "one stored, five gaps")
	last := int64(6)
	for _, id := range lost {
		_, found, err := other.FindRecord(t.Context(), c, id)
		require.NoError(t, err)
		require.False(t, found, "a record of a lost put")
		r, err := take(other, id)
		require.NoError(t, err)
		require.Greater(t, r.Position, last)
		last = r.Position
	}
}

// Visitors who come to one replica one after another get positions in that order, although these
// are written in groups.
func TestGroupsKeepOrder(t *testing.T) {
	t.Parallel()
	s := tables(t)(dynamotest.Hook{})
	const event, visitors = "order", 200
	c := roomtest.StartRound(t, s, event, room.DefaultSettings())
	positions, failures := make([]int64, visitors), make([]error, visitors)
	var work sync.WaitGroup
	for i := range visitors {
		arrived := make(chan struct{})
		work.Go(func() {
			close(arrived)
			var r room.Record
			r, failures[i] = roomtest.Take(t.Context(), s, c, fmt.Sprint(i), uuid.New())
			positions[i] = r.Position
		})
		<-arrived
		if i%20 == 19 { // let these twenty finish, since concurrent visitors have no order
			testkit.Until(t, func() bool { return roomtest.Read(t, s, event).Issued >= int64(i+1) }, "%d positions", i+1)
		}
	}
	work.Wait()
	require.NoError(t, errors.Join(failures...))
	for i := 20; i < visitors; i++ {
		before := positions[i/20*20-20 : i/20*20]
		require.Greater(t, positions[i], slices.Max(before), "visitor %d came later", i)
	}
}

// Visitors who come while a group is written are the next group, which costs one write of the
// counter.
func TestGroupsShareCounterWrite(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	s := tables(t)(dynamotest.Hook{Before: func(in any) error {
		if isUpdate(in) {
			writes.Add(1)
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "groups", room.DefaultSettings())
	const visitors = 500
	roomtest.TakeMany(t, s, c, visitors)
	require.LessOrEqual(t, writes.Load(), int64(visitors/10))
}

// Two writes of a counter are at least the minimum interval apart, however fast the store is.
func TestCounterWritesKeepMinimumInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var written []time.Duration
		fast := dynamotest.Hook{Answer: func(in any) any {
			switch in := in.(type) {
			case *awsdynamo.BatchGetItemInput:
				return &awsdynamo.BatchGetItemOutput{}
			case *awsdynamo.BatchExecuteStatementInput:
				return &awsdynamo.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(in.Statements))}
			case *awsdynamo.UpdateItemInput:
				written = append(written, time.Since(start))
				return &awsdynamo.UpdateItemOutput{Attributes: stored{"nextPosition": n(int64(len(written)))}}
			default:
				panic(fmt.Sprintf("%T", in))
			}
		}}
		db := awsdynamo.New(awsdynamo.Options{Region: "local", Credentials: aws.AnonymousCredentials{}}, fast.Options)
		s := dynamo.New(db, pkgdynamo.Config{Prefix: "fast"}, time.Now)
		for i := range 4 {
			r, err := roomtest.Take(t.Context(), s, room.Counters{EventID: "e", Round: 1}, "v", uuid.New())
			require.NoError(t, err)
			require.Equal(t, int64(i+1), r.Position)
		}
		const gap = 25 * time.Millisecond
		require.Equal(t, []time.Duration{0, gap, 2 * gap, 3 * gap}, written)
		require.NoError(t, s.Close(t.Context()))
	})
}

// A position counts as claimed once, however often its visitor fetches a token, and at whichever
// replica.
func TestClaimsCountOnce(t *testing.T) {
	t.Parallel()
	open := tables(t)
	a, b := open(dynamotest.Hook{}), open(dynamotest.Hook{})
	const event, visitors = "claims", 30
	c := roomtest.StartRound(t, a, event, room.DefaultSettings())
	recorders := []*dynamo.Claims{dynamo.NewClaims(a), dynamo.NewClaims(b)}
	stop := runClaims(t, recorders...)
	for _, r := range roomtest.TakeMany(t, a, c, visitors) {
		for range 3 {
			recorders[0].RecordClaim(r)
			recorders[1].RecordClaim(r)
		}
	}
	// The same position under another key, as after a change of the secrets, counts only once.
	recorders[0].RecordClaim(room.Record{EventID: event, Round: c.Round, RequestID: uuid.New(), Position: 1, Visitor: "0"})
	// A late claim of an earlier round does not count for the next round.
	recorders[1].RecordClaim(room.Record{EventID: event, Round: c.Round - 1, RequestID: uuid.New(), Position: 1, Visitor: "late"})
	stop() // queued claims are flushed
	require.Equal(t, int64(visitors), claimed(t, recorders[0], c))
}

// runClaims runs recorders. The returned function stops them, and they write their queued claims.
func runClaims(t *testing.T, recorders ...*dynamo.Claims) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, len(recorders))
	for _, claims := range recorders {
		claims.SetFlushTimeout(time.Minute) // three seconds may be too short on a busy machine
		go func() { done <- claims.Run(ctx) }()
	}
	return func() {
		t.Helper()
		cancel()
		for range recorders {
			require.NoError(t, <-done)
		}
	}
}
