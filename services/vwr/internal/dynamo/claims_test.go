package dynamo_test

import (
	"strings"
	"sync/atomic"
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

// isClaimsWrite reports whether a call writes to the claims partition of an event (partition), and
// whether it writes a set of positions there (positions).
func isClaimsWrite(in any) (partition, positions bool) {
	partition = strings.HasSuffix(eventOf(in), "#claims")
	return partition, partition && in.(*awsdynamo.UpdateItemInput).ReturnValues == types.ReturnValueUpdatedOld
}

// eventOf returns the partition key of an update; empty for other calls.
func eventOf(in any) string {
	if u, ok := in.(*awsdynamo.UpdateItemInput); ok {
		return u.Key["eventId"].(*types.AttributeValueMemberS).Value
	}
	return ""
}

func claimed(t *testing.T, claims *dynamo.Claims, c room.Counters) int64 {
	t.Helper()
	n, err := claims.Claimed(t.Context(), c.EventID, c.Round)
	require.NoError(t, err)
	return n
}

// Claimed fails while the claims partition rejects writes, and while claims of this replica are
// queued for another attempt.
func TestClaimedFailsWhenClaimsCannotBeWritten(t *testing.T) {
	t.Parallel()
	open := tables(t)
	var refuseAll, refuseSets atomic.Bool
	var refused atomic.Int64
	s := open(dynamotest.Hook{Before: func(in any) error {
		partition, positions := isClaimsWrite(in)
		if partition && refuseAll.Load() || positions && refuseSets.Load() {
			refused.Add(1)
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	c := roomtest.StartRound(t, s, "unwritten", room.DefaultSettings())
	claims := dynamo.NewClaims(s)
	stop := runClaims(t, claims)
	require.Zero(t, claimed(t, claims, c))
	refuseAll.Store(true)
	_, err := claims.Claimed(t.Context(), c.EventID, c.Round)
	require.ErrorIs(t, err, room.ErrUnavailable)
	refuseAll.Store(false)
	require.Zero(t, claimed(t, claims, c))

	refuseSets.Store(true)
	claims.RecordClaim(room.Record{EventID: c.EventID, Round: c.Round, RequestID: uuid.New(), Position: 1})
	testkit.Until(t, func() bool {
		_, err := claims.Claimed(t.Context(), c.EventID, c.Round)
		return err != nil
	}, "a claim that waits")
	other := c
	other.EventID = "another"
	require.Zero(t, claimed(t, claims, other), "other events' claims are known")
	refuseSets.Store(false)
	testkit.Until(t, func() bool {
		n, err := claims.Claimed(t.Context(), c.EventID, c.Round)
		return err == nil && n == 1
	}, "the claim is written")
	stop()
	require.Equal(t, int64(1), claimed(t, claims, c))
	n, err := s.ClaimCount(t.Context(), c.EventID, c.Round)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}
