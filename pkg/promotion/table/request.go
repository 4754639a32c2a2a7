package table

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// RequestKey is the key of a request's item.
func RequestKey(id string) dynamo.Item { return Key("REQ#"+id, "META") }

// UserIndex is the key of the partition of GSI1 with the requests of a user.
func UserIndex(user string) string { return "USER#" + user }

// EventIndex returns the keys of the partitions of GSI2 with the requests of an event. More shards
// only add keys, so that a list includes the requests from before the number was raised.
func EventIndex(event string, shards int64) []string {
	out := make([]string, max(1, shards))
	for i := range out {
		out[i] = eventShard(event, int64(i))
	}
	return out
}

func eventShard(event string, shard int64) string {
	if shard == 0 {
		return "EVENT#" + event
	}
	return fmt.Sprintf("EVENT#%s#%d", event, shard)
}

// RequestItem encodes a request. Attributes that are used in conditions are written even if 0.
func RequestItem(r *promotion.Request) dynamo.Item {
	b := newItem("REQ#"+r.RequestID, "META", "REQUEST")
	b.setString("requestId", r.RequestID)
	b.setString("eventId", r.EventID)
	b.setString("userId", r.UserID)
	b.setString("eventType", string(r.EventType))
	b.setString("idempotencyKey", lockPK(r.EventID, r.UserID))
	b.setString("status", string(r.Status))
	b.setNumberOrZero("statusAt", r.StatusAt)
	b.setNumberOrZero("gen", r.Gen)
	b.setNumberOrZero("attempts", r.Attempts)
	b.setNonZero("requestedAt", r.RequestedAt)
	b.setNonZero("queuedAt", r.QueuedAt)
	b.setNonZero("startedAt", r.StartedAt)
	b.setNonZero("finishedAt", r.FinishedAt)
	b.setNonZero("enteredAt", r.EnteredAt)
	b.setString("queueSeq", r.QueueSeq)
	b.setNonZero("place", r.Place)
	b.setString("resultCode", string(r.ResultCode))
	b.setString("failureClass", string(r.FailureClass))
	b.setString("errorCode", r.ErrorCode)
	b.setString("errorMessage", r.ErrorMessage)
	b.setNonZero("lotteryCutoffAt", r.LotteryCutoffAt)
	b.setNonZero("announcedAt", r.AnnouncedAt)
	b.setNonZero("shards", r.Shards)
	b.setNonZero("endsAt", r.EndsAt)
	b.setNonZero(TTL, expirySeconds(r.EndsAt, promotion.RetentionDays))
	order := r.RequestedAt // until the time of queueing is known
	if r.QueuedAt != 0 {
		order = r.QueuedAt
	}
	sort := "QAT#" + sortableTime(order) + "#REQ#" + r.RequestID
	b.setString(GSI1PK, UserIndex(r.UserID))
	b.setString(GSI1SK, sort)
	b.setString(GSI2PK, eventShard(r.EventID, r.Shard))
	b.setString(GSI2SK, sort)
	return dynamo.Item(b)
}

// DecodeRequest reads a request's item.
func DecodeRequest(it dynamo.Item) (promotion.Request, error) {
	d := dynamo.Reader{Item: it}
	r := promotion.Request{
		RequestID: d.String("requestId"), EventID: d.String("eventId"), UserID: d.String("userId"), EventType: promotion.Type(d.String("eventType")),
		Status: promotion.Status(d.String("status")), StatusAt: d.Number("statusAt"), Gen: d.Number("gen"), Attempts: d.Number("attempts"),
		RequestedAt: d.Number("requestedAt"), QueuedAt: d.Number("queuedAt"), StartedAt: d.Number("startedAt"),
		FinishedAt: d.Number("finishedAt"), EnteredAt: d.Number("enteredAt"), QueueSeq: d.String("queueSeq"), Place: d.Number("place"),
		ResultCode: promotion.ResultCode(d.String("resultCode")), FailureClass: promotion.FailureClass(d.String("failureClass")),
		ErrorCode: d.String("errorCode"), ErrorMessage: d.String("errorMessage"),
		LotteryCutoffAt: d.Number("lotteryCutoffAt"), AnnouncedAt: d.Number("announcedAt"),
		Shards: max(1, d.Number("shards")), EndsAt: d.Number("endsAt"),
	}
	r.Shard = promotion.ShardOf(r.RequestID, r.Shards)
	if err := d.Err(); err != nil {
		return r, fmt.Errorf("request %s: %w: %w", r.RequestID, promotion.ErrUnreadable, err)
	}
	if r.RequestID == "" || r.EventID == "" || r.UserID == "" || r.Status == "" {
		return r, fmt.Errorf("request %q: %w: an attribute is missing", r.RequestID, promotion.ErrUnreadable)
	}
	return r, nil
}

// LogPrefix is the beginning of the sort keys of a request's status log.
const LogPrefix = "LOG#"

// LogItem encodes an entry of a request's status log.
func LogItem(l *promotion.LogEntry) dynamo.Item {
	b := newItem("REQ#"+l.RequestID, LogPrefix+sortableTime(l.OccurredAt), "STATUS_LOG")
	b.setString("fromStatus", string(l.From))
	b.setString("toStatus", string(l.To))
	b.setNonZero("occurredAt", l.OccurredAt)
	b.setNonZero(TTL, expirySeconds(l.EndsAt, logDays))
	return dynamo.Item(b)
}

// DecodeLog reads an entry of a request's status log.
func DecodeLog(it dynamo.Item) (promotion.LogEntry, error) {
	d := dynamo.Reader{Item: it}
	l := promotion.LogEntry{
		RequestID: strings.TrimPrefix(d.String(PK), "REQ#"), From: promotion.Status(d.String("fromStatus")), To: promotion.Status(d.String("toStatus")),
		OccurredAt: d.Number("occurredAt"),
	}
	return l, d.Err()
}

// RequestUnchanged is the condition that the stored request has not changed since r was read.
func RequestUnchanged(r *promotion.Request) Condition {
	c := Condition{
		Expression: "#readStatus = :readStatus AND statusAt = :readAt AND gen = :readGen AND attempts = :readAttempts",
		Names:      map[string]string{"#readStatus": "status"},
		Values: dynamo.Item{
			":readStatus": dynamo.String(string(r.Status)), ":readAt": dynamo.Number(r.StatusAt), ":readGen": dynamo.Number(r.Gen),
			":readAttempts": dynamo.Number(r.Attempts),
		},
	}
	switch {
	case r.EventType != promotion.Lottery:
	case r.EnteredAt == 0:
		c.Expression += " AND attribute_not_exists(enteredAt)"
	default:
		c.Expression += " AND enteredAt = :readEntered"
		c.Values[":readEntered"] = dynamo.Number(r.EnteredAt)
	}
	return c
}
