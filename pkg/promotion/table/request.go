package table

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// RequestKey is the key of a request's item.
func RequestKey(id string) dynamo.Item { return Key("REQ#"+id, "META") }

// UserIndex is the partition of GSI1 with the requests of a user.
func UserIndex(user string) string { return "USER#" + user }

// EventIndex are the partitions of GSI2 with the requests of an event.
func EventIndex(event string, shards int64) []string {
	if shards <= 1 {
		return []string{"EVENT#" + event}
	}
	out := make([]string, shards)
	for i := range out {
		out[i] = eventShard(event, int64(i))
	}
	return out
}

func eventShard(event string, shard int64) string { return fmt.Sprintf("EVENT#%s#%d", event, shard) }

// RequestItem encodes a request. Attributes that conditions name are always written.
func RequestItem(r *promotion.Request) dynamo.Item {
	b := newItem("REQ#"+r.RequestID, "META", "REQUEST")
	b.str("requestId", r.RequestID)
	b.str("eventId", r.EventID)
	b.str("userId", r.UserID)
	b.str("eventType", string(r.EventType))
	b.str("idempotencyKey", lockPK(r.EventID, r.UserID))
	b.str("status", string(r.Status))
	b.count("statusAt", r.StatusAt)
	b.count("gen", r.Gen)
	b.count("attempts", r.Attempts)
	b.num("requestedAt", r.RequestedAt)
	b.num("queuedAt", r.QueuedAt)
	b.num("startedAt", r.StartedAt)
	b.num("finishedAt", r.FinishedAt)
	b.num("enteredAt", r.EnteredAt)
	b.str("queueSeq", r.QueueSeq)
	b.str("resultCode", string(r.ResultCode))
	b.str("failureClass", string(r.FailureClass))
	b.str("errorCode", r.ErrorCode)
	b.str("errorMessage", r.ErrorMessage)
	b.num("lotteryCutoffAt", r.LotteryCutoffAt)
	b.num("announcedAt", r.AnnouncedAt)
	b.num("shards", r.Shards)
	b.num("endsAt", r.EndsAt)
	b.num(TTL, expirySeconds(r.EndsAt, promotion.RetentionDays))
	order := r.RequestedAt // until the time of queueing is known
	if r.QueuedAt != 0 {
		order = r.QueuedAt
	}
	sort := "QAT#" + sortableTime(order) + "#REQ#" + r.RequestID
	b.str(GSI1PK, UserIndex(r.UserID))
	b.str(GSI1SK, sort)
	event := "EVENT#" + r.EventID
	if r.Shards > 1 {
		event = eventShard(r.EventID, r.Shard)
	}
	b.str(GSI2PK, event)
	b.str(GSI2SK, sort)
	return dynamo.Item(b)
}

// DecodeRequest reads a request's item.
func DecodeRequest(it dynamo.Item) (promotion.Request, error) {
	d := dynamo.Reader{Item: it}
	r := promotion.Request{
		RequestID: d.String("requestId"), EventID: d.String("eventId"), UserID: d.String("userId"), EventType: promotion.Type(d.String("eventType")),
		Status: promotion.Status(d.String("status")), StatusAt: d.Number("statusAt"), Gen: d.Number("gen"), Attempts: d.Number("attempts"),
		RequestedAt: d.Number("requestedAt"), QueuedAt: d.Number("queuedAt"), StartedAt: d.Number("startedAt"),
		FinishedAt: d.Number("finishedAt"), EnteredAt: d.Number("enteredAt"), QueueSeq: d.String("queueSeq"),
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

// LogPrefix begins the sort keys of logs.
const LogPrefix = "LOG#"

// LogItem encodes an entry of the log.
func LogItem(l *promotion.LogEntry) dynamo.Item {
	b := newItem("REQ#"+l.RequestID, LogPrefix+sortableTime(l.OccurredAt), "STATUS_LOG")
	b.str("fromStatus", string(l.From))
	b.str("toStatus", string(l.To))
	b.num("occurredAt", l.OccurredAt)
	b.num(TTL, expirySeconds(l.EndsAt, logDays))
	return dynamo.Item(b)
}

// DecodeLog reads an entry of the log.
func DecodeLog(it dynamo.Item) (promotion.LogEntry, error) {
	d := dynamo.Reader{Item: it}
	l := promotion.LogEntry{
		RequestID: strings.TrimPrefix(d.String(PK), "REQ#"), From: promotion.Status(d.String("fromStatus")), To: promotion.Status(d.String("toStatus")),
		OccurredAt: d.Number("occurredAt"),
	}
	return l, d.Err()
}

// RequestAsRead is the condition that a request is as it was read.
func RequestAsRead(r *promotion.Request) Condition {
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
