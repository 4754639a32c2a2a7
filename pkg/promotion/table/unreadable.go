package table

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// ReportSkipped counts and logs an item that a caller skips because it cannot be read.
func (s Store) ReportSkipped(ctx context.Context, it dynamo.Item, cause error) {
	pk, sk := countUnreadable(it)
	if s.Log != nil {
		s.Log.ErrorContext(ctx, "unreadable item skipped", "pk", pk, "sk", sk, "error", cause)
	}
}

// countUnreadable counts, in a metric, an item that cannot be read, and returns the item's key.
func countUnreadable(it dynamo.Item) (pk, sk string) {
	d := dynamo.Reader{Item: it}
	pk, sk = d.String(PK), d.String(SK)
	kind, _, _ := strings.Cut(pk, "#")
	unreadableTotal.WithLabelValues(kind).Inc()
	return pk, sk
}

// MendExclusion repairs the item that excludes a request from a draw, if the item cannot be read
// and the draw has no statement. As the reason it stores the result of the request, or FAILED_SERDE
// if the request cannot be read either. It fails for a request that is an entry, and with
// dynamo.CanceledError when the exclusion or the draw has changed.
func (s Store) MendExclusion(ctx context.Context, exclusion dynamo.Item, readError error) (promotion.Exclusion, error) {
	e, err := DecodeExclusion(exclusion)
	if err == nil {
		return e, nil
	}
	if e.Reason, err = s.resultOf(ctx, e); err != nil {
		return e, err
	}
	e.At = s.Millis()
	tx := s.Begin()
	tx.Update(0, KeyOf(exclusion), dynamo.Change{
		Expression: "SET #reason = :reason, #at = :at", Names: map[string]string{"#reason": exclusionReason, "#at": exclusionAt},
		Values: dynamo.Item{":reason": dynamo.String(string(e.Reason)), ":at": dynamo.Number(e.At)},
	}, exclusionUnchanged(exclusion))
	tx.Check(Shared, DrawKey(e.EventID), Condition{Expression: "attribute_not_exists(statement)"})
	if err := tx.Commit(ctx); err != nil {
		return e, err
	}
	pk, sk := countUnreadable(exclusion)
	if s.Log != nil {
		s.Log.ErrorContext(ctx, "unreadable exclusion written anew", "pk", pk, "sk", sk, "reason", e.Reason, "error", readError)
	}
	return e, nil
}

func (s Store) resultOf(ctx context.Context, e promotion.Exclusion) (promotion.ResultCode, error) {
	entry := Key(EntryPartition(e.EventID, promotion.LotteryGroup(e.RequestID)), e.RequestID)
	items, err := s.Read(ctx, RequestKey(e.RequestID), entry)
	if err != nil {
		return "", err
	}
	if items.Get(entry) != nil {
		return "", fmt.Errorf("%s is excluded from the draw of %s and an entry", e.RequestID, e.EventID)
	}
	r, err := DecodeRequest(items.Get(RequestKey(e.RequestID)))
	if err != nil || r.ResultCode == "" {
		return promotion.FailedSerde, nil //nolint:nilerr // nothing tells the result
	}
	return r.ResultCode, nil
}

// exclusionUnchanged is the condition that an exclusion still has the attributes that were read,
// even if these attributes cannot be decoded.
func exclusionUnchanged(it dynamo.Item) Condition {
	c := Condition{Expression: "attribute_exists(" + PK + ")", Values: dynamo.Item{}}
	for name, at := range map[string]string{"#reason": exclusionReason, "#at": exclusionAt} { // the names of the update
		if v, ok := it[at]; ok {
			value := ":read" + strings.TrimPrefix(name, "#")
			c.Expression += " AND " + name + " = " + value
			c.Values[value] = v
		} else {
			c.Expression += " AND attribute_not_exists(" + name + ")"
		}
	}
	return c
}

// EndUnreadable ends a request whose item cannot be read, unless it has ended or is an entry: it
// deletes the marker, so that nothing waits for the request, and counts, announces and excludes it
// as FAILED_SERDE. It writes the dead letter in the same transaction. Fields of m that are not
// known may be empty.
func (s Store) EndUnreadable(ctx context.Context, m promotion.Message, letter promotion.DeadLetter) error {
	items, err := s.Read(ctx, RequestKey(m.RequestID))
	if err != nil {
		return err
	}
	stored := items.Get(RequestKey(m.RequestID))
	d := dynamo.Reader{Item: stored}
	m.EventID, m.UserID = cmp.Or(m.EventID, d.String("eventId")), cmp.Or(m.UserID, d.String("userId"))
	letter.RequestID, letter.EventID = m.RequestID, m.EventID
	tx := s.Begin()
	tx.Put(Shared, DeadLetterItem(&letter), Condition{})
	if err := s.endUnreadable(ctx, tx, m, stored != nil); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func (s Store) endUnreadable(ctx context.Context, tx *Tx, m promotion.Message, stored bool) error {
	markers, err := s.markersOf(ctx, m.RequestID)
	if err != nil || len(markers) == 0 {
		return err
	}
	for _, key := range markers {
		tx.Delete(Shared, key, Present())
	}
	if m.EventID == "" {
		return nil
	}
	items, err := s.Read(ctx, PromotionKey(m.EventID))
	if err != nil {
		return err
	}
	r := promotion.Request{RequestID: m.RequestID, EventID: m.EventID, UserID: m.UserID, Status: promotion.Processing, StatusAt: s.Millis() - 1}
	if it := items.Get(PromotionKey(m.EventID)); it != nil {
		p, err := DecodePromotion(it)
		if err != nil {
			return err
		}
		r.EventType, r.EndsAt = p.EventType, p.EndsAt()
	}
	c := r.Ended(s.Millis(), promotion.FailedFinal, promotion.FailedSerde)
	if stored { // so that the request counts as failed if its item is repaired
		tx.Update(Shared, RequestKey(m.RequestID), dynamo.Change{
			Expression: "SET #status = :status, statusAt = :now, finishedAt = :now, resultCode = :code",
			Names:      map[string]string{"#status": "status"},
			Values: dynamo.Item{
				":status": dynamo.String(string(promotion.FailedFinal)), ":now": dynamo.Number(c.After.StatusAt), ":code": dynamo.String(string(promotion.FailedSerde)),
			},
		}, Present())
	}
	tx.recordEnd(c)
	if r.EventType == promotion.Lottery {
		tx.Check(Shared, Key(EntryPartition(m.EventID, promotion.LotteryGroup(m.RequestID)), m.RequestID), Absent())
		tx.addLotteryWrites(Shared, c)
	}
	return nil
}

// markersOf returns the keys of all markers of a request.
func (s Store) markersOf(ctx context.Context, id string) ([]dynamo.Item, error) {
	var found []dynamo.Item
	for it, err := range s.All(ctx, PartitionQuery{PK: MarkerPartition(promotion.PartitionOf(id)), KeysOnly: true}) {
		if err != nil {
			return nil, fmt.Errorf("markers of %s: %w", id, err)
		}
		if markerOfKey(it).RequestID == id {
			found = append(found, KeyOf(it))
		}
	}
	return found, nil
}
