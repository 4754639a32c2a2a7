package dynamo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

// Attributes of the counters table.
const (
	attrEvent       = "eventId" // key
	attrIssued      = "nextPosition"
	attrServing     = "servingCounter"
	attrActive      = "isActive"
	attrUpdated     = "updatedAt"   // epoch ms
	attrRound       = "activatedAt" // µs; also on positions
	attrBatch       = "batch"
	attrInterval    = "intervalMs"
	attrInlet       = "inlet"
	attrMaxInFlight = "maxInFlight"
	attrProofOfWork = "proofOfWork" // leading zero bits
	attrSignIn      = "signIn"      // absent: false
	attrExpected    = "expected"    // visitors at the start; absent: unknown
	attrAskRate     = "askRate"     // their requests per second; absent: room.DefaultAskRate
	attrNext        = "next"        // absent: QUEUE
)

// The registries of active events and of unfinished lobbies are the only items of the counters
// table that are not events. No event id begins with #.
const (
	registryID   = "#active"
	attrRegistry = "events" // string set
)

// Attributes of the positions table beside eventId and activatedAt.
const (
	attrRequest  = "requestId" // sort key
	attrPosition = "position"
	attrVisitor  = "userId"
	attrCreated  = "createdAt" // epoch ms
	attrTTL      = "ttl"       // epoch s
)

// Claimed positions are stored in the positions table. One item has the set of claimed positions
// among claimsBlock consecutive positions of a round, so that a repeated claim changes nothing.
// Another item has the round's number of claims. Their partition key differs from the event's, so
// that a burst of new positions does not throttle claims. They have no position attribute, so they
// are not in the index, and their sort keys are not UUIDs.
const (
	claimsBlock     = 500
	attrClaimSet    = "claims" // number set
	attrClaimed     = "claimed"
	claimsPartition = "%s#claims"
	claimsKeyForm   = "%d#%d"    // round, block
	claimedKeyForm  = "%d#count" // round
)

// shardSign separates the event id from the number in the partition key of a position.
// No event id contains it.
const shardSign = "#"

// positionTTL is how long a position is kept.
const positionTTL = 24 * time.Hour

func claimSetKey(k roundKey, block int64) dynamo.Item {
	return claimsItemKey(k, fmt.Sprintf(claimsKeyForm, k.round, block))
}

func claimCountKey(k roundKey) dynamo.Item {
	return claimsItemKey(k, fmt.Sprintf(claimedKeyForm, k.round))
}

func claimsItemKey(k roundKey, sortKey string) dynamo.Item {
	return dynamo.Item{attrEvent: dynamo.String(fmt.Sprintf(claimsPartition, k.eventID)), attrRequest: dynamo.String(sortKey)}
}

func set(members ...string) types.AttributeValue {
	return &types.AttributeValueMemberSS{Value: members}
}

func counterKey(eventID string) dynamo.Item { return dynamo.Item{attrEvent: dynamo.String(eventID)} }

// positionID is the primary key of a stored position: its partition key, and the request id.
type positionID struct {
	partition string
	id        uuid.UUID
}

func positionKey(p positionID) dynamo.Item {
	return dynamo.Item{attrEvent: dynamo.String(p.partition), attrRequest: dynamo.String(p.id.String())}
}

// positionKeys is the number of partition keys among which the positions of a round are divided. It
// is far greater than the number of partitions of a warm table, so that these get about equally
// many, in the table and in the index.
const positionKeys = 1024

// keyNumber returns the number of a position's partition key. The request id is a MAC, so the keys
// get equally many positions.
func keyNumber(id uuid.UUID) uint16 { return binary.BigEndian.Uint16(id[:]) % positionKeys }

func positionIDOf(eventID string, id uuid.UUID) positionID {
	return positionID{fmt.Sprintf("%s%s%03x", eventID, shardSign, keyNumber(id)), id}
}

func numbers(ns []int64) types.AttributeValue {
	members := make([]string, len(ns))
	for i, n := range ns {
		members[i] = strconv.FormatInt(n, 10)
	}
	return &types.AttributeValueMemberNS{Value: members}
}

// toCounters converts an item of the counters table. Missing settings get their defaults.
func toCounters(it dynamo.Item) (room.Counters, error) {
	r := dynamo.Reader{Item: it}
	c := room.Counters{
		EventID:   r.String(attrEvent),
		Active:    r.Bool(attrActive),
		Round:     room.Round(r.Number(attrRound)),
		Issued:    r.Number(attrIssued),
		Serving:   r.Number(attrServing),
		Settings:  room.DefaultSettings(),
		UpdatedAt: time.UnixMilli(r.Number(attrUpdated)),
	}
	if n := r.Number(attrBatch); n > 0 {
		c.Settings.Batch = n
	}
	if ms := r.Number(attrInterval); ms > 0 {
		c.Settings.Interval = time.Duration(ms) * time.Millisecond
	}
	if s := r.String(attrInlet); s != "" {
		c.Settings.Inlet = room.Inlet(s)
	}
	c.Settings.MaxInFlight = r.Number(attrMaxInFlight)
	c.Settings.ProofOfWork = r.Number(attrProofOfWork)
	c.Settings.SignIn = r.Bool(attrSignIn)
	c.Settings.Expected = r.Number(attrExpected)
	if n := r.Number(attrAskRate); n > 0 {
		c.Settings.AskRate = n
	}
	if s := r.String(attrNext); s != "" {
		c.Settings.Next = room.NextPage(s)
	}
	c.Lobby = toLobby(&r)
	if r.Err() != nil {
		return c, fmt.Errorf("counters of %s: %w", c.EventID, r.Err())
	}
	return c, nil
}

func toRecord(it dynamo.Item) (room.Record, error) {
	r := dynamo.Reader{Item: it}
	eventID, _, _ := strings.Cut(r.String(attrEvent), shardSign)
	rec := room.Record{
		EventID:  eventID,
		Round:    room.Round(r.Number(attrRound)),
		Position: r.Number(attrPosition),
		Visitor:  r.String(attrVisitor),
	}
	var err error
	rec.RequestID, err = uuid.Parse(r.String(attrRequest))
	if err = errors.Join(r.Err(), err); err != nil {
		return rec, fmt.Errorf("position of %s: %w", rec.EventID, err)
	}
	return rec, nil
}

func fromRecord(rec room.Record, now time.Time) dynamo.Item {
	it := positionKey(positionIDOf(rec.EventID, rec.RequestID))
	it[attrRound] = dynamo.Number(int64(rec.Round))
	it[attrPosition] = dynamo.Number(rec.Position)
	it[attrVisitor] = dynamo.String(rec.Visitor)
	it[attrCreated] = dynamo.Number(now.UnixMilli())
	it[attrTTL] = dynamo.Number(now.Add(positionTTL).Unix())
	return it
}
