package dynamo

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
)

// Attributes of the counters table. The names lobbyOpensAt, startsAt, proofOfWork (pre-queue) and
// shards are reserved.
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
	attrClaimed     = "claimed"
)

// The registry of active events is the only item of the counters table that is not an event. No
// event id begins with #.
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

// Claimed positions are stored in the positions table. One item per claimsBlock positions of a
// round holds a set, so that repeated claims change nothing. Another item holds the number of
// claims of the round. Their partition key differs from the event's, so that a burst of new
// positions does not throttle claims. Their sort keys are not UUIDs, and they have no position
// attribute, so they are not in the index.
const (
	claimsBlock     = 500
	attrClaimSet    = "claims" // number set
	claimsPartition = "%s#claims"
	claimsKeyForm   = "%d#%d"    // round, block
	claimedKeyForm  = "%d#count" // round
	// previousClaimsKeyForm is the sort key of the sets of the previous release, in the event's own
	// partition.
	previousClaimsKeyForm = "claims#%d#%d"
)

// positionTTL is how long a position is kept.
const positionTTL = 24 * time.Hour

func claimsKey(k groupKey, block int64) item {
	return claimsItemKey(k, fmt.Sprintf(claimsKeyForm, k.round, block))
}

func claimedKey(k groupKey) item { return claimsItemKey(k, fmt.Sprintf(claimedKeyForm, k.round)) }

func claimsItemKey(k groupKey, sortKey string) item {
	return item{attrEvent: str(fmt.Sprintf(claimsPartition, k.eventID)), attrRequest: str(sortKey)}
}

func previousClaimsKey(k groupKey, block int64) item {
	return item{attrEvent: str(k.eventID), attrRequest: str(fmt.Sprintf(previousClaimsKeyForm, k.round, block))}
}

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func set(members ...string) types.AttributeValue {
	return &types.AttributeValueMemberSS{Value: members}
}

func counterKey(eventID string) item { return item{attrEvent: str(eventID)} }

func positionKey(eventID string, id uuid.UUID) item {
	return item{attrEvent: str(eventID), attrRequest: str(id.String())}
}

func numbers(ns []int64) types.AttributeValue {
	members := make([]string, len(ns))
	for i, n := range ns {
		members[i] = strconv.FormatInt(n, 10)
	}
	return &types.AttributeValueMemberNS{Value: members}
}

// reader reads typed attributes of an item and keeps the first error. An absent attribute reads as
// the zero value, since older items have fewer attributes.
type reader struct {
	item item
	err  error
}

func (r *reader) str(name string) string {
	switch v := r.item[name].(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		r.typeError(name)
		return ""
	}
}

func (r *reader) num(name string) int64 {
	switch v := r.item[name].(type) {
	case nil:
		return 0
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			r.typeError(name)
		}
		return n
	default:
		r.typeError(name)
		return 0
	}
}

func (r *reader) bool(name string) bool {
	v, ok := r.item[name].(*types.AttributeValueMemberBOOL)
	return ok && v.Value
}

func (r *reader) typeError(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %s is not of its type: %T", name, r.item[name])
	}
}

// toCounters converts an item of the counters table. Absent settings get their defaults.
func toCounters(it item) (room.Counters, error) {
	r := reader{item: it}
	c := room.Counters{
		EventID:   r.str(attrEvent),
		Active:    r.bool(attrActive),
		Round:     room.Round(r.num(attrRound)),
		Issued:    r.num(attrIssued),
		Serving:   r.num(attrServing),
		Claimed:   r.num(attrClaimed),
		Settings:  room.DefaultSettings(),
		UpdatedAt: time.UnixMilli(r.num(attrUpdated)),
	}
	if n := r.num(attrBatch); n > 0 {
		c.Settings.Batch = n
	}
	if ms := r.num(attrInterval); ms > 0 {
		c.Settings.Interval = time.Duration(ms) * time.Millisecond
	}
	if s := r.str(attrInlet); s != "" {
		c.Settings.Inlet = room.Inlet(s)
	}
	c.Settings.MaxInFlight = r.num(attrMaxInFlight)
	if r.err != nil {
		return c, fmt.Errorf("counters of %s: %w", c.EventID, r.err)
	}
	return c, nil
}

func toRecord(it item) (room.Record, error) {
	r := reader{item: it}
	rec := room.Record{
		EventID:  r.str(attrEvent),
		Round:    room.Round(r.num(attrRound)),
		Position: r.num(attrPosition),
		Visitor:  r.str(attrVisitor),
	}
	id, err := uuid.Parse(r.str(attrRequest))
	if err != nil && r.err == nil {
		r.err = err
	}
	rec.RequestID = id
	if r.err != nil {
		return rec, fmt.Errorf("position of %s: %w", rec.EventID, r.err)
	}
	return rec, nil
}

func fromRecord(rec room.Record, now time.Time) item {
	return item{
		attrEvent:    str(rec.EventID),
		attrRequest:  str(rec.RequestID.String()),
		attrRound:    num(int64(rec.Round)),
		attrPosition: num(rec.Position),
		attrVisitor:  str(rec.Visitor),
		attrCreated:  num(now.UnixMilli()),
		attrTTL:      num(now.Add(positionTTL).Unix()),
	}
}
