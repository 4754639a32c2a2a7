package dynamo_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// If writes of one event hang, the positions of other events are issued.
func TestHangingWritesDelayNoOtherEvent(t *testing.T) {
	t.Parallel()
	for name, isStuck := range map[string]func(in any, event string) bool{
		"counter": func(in any, event string) bool {
			return eventOf(in) == event
		},
		"records": func(in any, event string) bool {
			inserts, ok := in.(*awsdynamo.BatchExecuteStatementInput)
			return ok && slices.ContainsFunc(inserts.Statements[0].Parameters, func(v types.AttributeValue) bool {
				text, ok := v.(*types.AttributeValueMemberS)
				return ok && strings.HasPrefix(text.Value, event+"#")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := tables(t)
			plain := open(dynamotest.Hook{})
			slow := roomtest.StartRound(t, plain, "slow", room.DefaultSettings())
			fast := roomtest.StartRound(t, plain, "fast", room.DefaultSettings())
			g := newGate()
			s := open(dynamotest.Hook{Before: func(in any) error {
				if isStuck(in, slow.EventID) {
					g.block()
				}
				return nil
			}})
			var blocked sync.WaitGroup
			for range 200 { // more than may be written at once
				blocked.Go(func() { _, _ = takeWithID(context.WithoutCancel(t.Context()), s, slow, uuid.New()) })
			}
			g.awaitBlocked(t)
			for want := range int64(3) {
				r, err := takeWithID(t.Context(), s, fast, uuid.New())
				require.NoError(t, err)
				require.Equal(t, want+1, r.Position)
			}
			close(g.open)
			blocked.Wait()
		})
	}
}

// Claims of an event whose sets cannot be written stay queued. Claims of other events are counted.
func TestHangingClaimsDelayNoOtherEvent(t *testing.T) {
	t.Parallel()
	open := tables(t)
	plain := open(dynamotest.Hook{})
	slow := roomtest.StartRound(t, plain, "slow-claims", room.DefaultSettings())
	fast := roomtest.StartRound(t, plain, "fast-claims", room.DefaultSettings())
	g := newGate()
	s := open(dynamotest.Hook{Before: func(in any) error {
		if _, positions := isClaimsWrite(in); positions && eventOf(in) == slow.EventID+"#claims" {
			g.block()
		}
		return nil
	}})
	claims := dynamo.NewClaims(s)
	stop := runClaims(t, claims)
	claim := func(c room.Counters, position int64) {
		claims.RecordClaim(room.Record{EventID: c.EventID, Round: c.Round, RequestID: uuid.New(), Position: position})
	}
	claim(slow, 1)
	g.awaitBlocked(t)
	claim(fast, 1)
	testkit.Until(t, func() bool { return claimed(t, claims, fast) == 1 }, "the other event's claim")
	close(g.open)
	stop()
	require.Equal(t, int64(1), claimed(t, claims, slow))
}

// While more than one group of claims is queued, the stored count is too small. Then Claimed fails,
// so that the share is unchanged and a burst of claims does not raise the rate.
func TestClaimedFailsWhileBurstIsQueued(t *testing.T) {
	t.Parallel()
	open := tables(t)
	g := newGate()
	s := open(dynamotest.Hook{Before: func(in any) error {
		if _, positions := isClaimsWrite(in); positions {
			g.block()
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "burst", room.DefaultSettings())
	claims := dynamo.NewClaims(s)
	stop := runClaims(t, claims)
	const visitors = 700
	for p := range int64(visitors) {
		claims.RecordClaim(room.Record{EventID: c.EventID, Round: c.Round, RequestID: uuid.New(), Position: p})
		if p == 0 {
			g.awaitBlocked(t) // so that later claims are not in the first group
		}
	}
	_, err := claims.Claimed(t.Context(), c.EventID, c.Round)
	require.ErrorIs(t, err, room.ErrUnavailable)
	close(g.open)
	testkit.Until(t, func() bool {
		n, err := claims.Claimed(t.Context(), c.EventID, c.Round)
		return err == nil && n == visitors
	}, "the burst is counted")
	stop()
}
