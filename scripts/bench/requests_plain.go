package bench

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
)

const (
	// receivers is the default number of goroutines in a worker that receive messages.
	receivers = 4
	// filledAtOnce is the number of requests that one DynamoDB transaction stores.
	filledAtOnce = 20
)

func lockOf(r *promotion.Request) *promotion.Lock {
	return &promotion.Lock{EventID: r.EventID, UserID: r.UserID, RequestID: r.RequestID, CreatedAt: r.RequestedAt, EndsAt: r.EndsAt}
}

// unsentRequests are stored requests of some promotions. Their messages are not in the queue yet.
type unsentRequests struct {
	promotions []*promotion.Promotion
	messages   [][]promotion.Outgoing // the messages of each promotion
}

// storeRequests stores n promotions, each with the given number of requests.
func (r *requestRows) storeRequests(ctx context.Context, n, requests int) (f unsentRequests, err error) {
	f = unsentRequests{promotions: make([]*promotion.Promotion, n), messages: make([][]promotion.Outgoing, n)}
	group, ctx := errgroup.WithContext(ctx)
	for i := range f.promotions {
		group.Go(func() (err error) {
			if f.promotions[i], err = r.newPromotion(ctx); err != nil {
				return err
			}
			for len(f.messages[i]) < requests {
				all, err := r.storeQueued(ctx, f.promotions[i], min(filledAtOnce, requests-len(f.messages[i])))
				if err != nil {
					return err
				}
				for _, request := range all {
					f.messages[i] = append(f.messages[i], promotion.Outgoing{Message: promotion.MessageOf(&request)})
				}
			}
			return nil
		})
	}
	return f, group.Wait()
}

// storeQueued stores n requests of new users, with the status QUEUED but without logs of statuses.
func (r *requestRows) storeQueued(ctx context.Context, p *promotion.Promotion, n int) ([]promotion.Request, error) {
	tx := r.store.Begin()
	all := make([]promotion.Request, n)
	for i := range all {
		now := r.store.Millis()
		received := promotion.NewRequest(p, ids.NewV7().String(), ids.NewV7().String(), now)
		all[i] = received.Queued(now).After
		marker := promotion.MarkerOf(&all[i], now)
		marker.QueuedAt = now
		for _, item := range []pkgdynamo.Item{table.LockItem(lockOf(&received)), table.RequestItem(&all[i]), table.MarkerItem(&marker)} {
			tx.Put(i, item, table.Condition{})
		}
	}
	return all, tx.Commit(ctx)
}

// sendMessages puts all requests in the queue, at most perMessage in a message. It sends, for one
// promotion after the other, as many requests as a worker can receive at once, and begins again.
func sendMessages(ctx context.Context, target *queue.Queue, f unsentRequests, perMessage int) error {
	for start := 0; start < len(f.messages[0]); start += queue.MaxBatch * perMessage {
		for _, messages := range f.messages {
			batch := messages[start:min(start+queue.MaxBatch*perMessage, len(messages))]
			if perMessage == promotion.MaxMembers {
				if err := errors.Join(target.Send(ctx, batch)...); err != nil {
					return err
				}
				continue
			}
			for message := range slices.Chunk(batch, perMessage) { // Send puts the requests of one call into one message
				if err := errors.Join(target.Send(ctx, message)...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// settleUnbatched receives messages and decides about their requests one by one, until ctx ends.
func (r *requestRows) settleUnbatched(ctx context.Context) error {
	for {
		messages, err := r.plain.Receive(ctx)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil // the caller cancels ctx when every request has a result
		case err != nil:
			return err
		}
		for _, m := range messages {
			if err := r.settleOne(ctx, m); err != nil {
				if errors.Is(ctx.Err(), context.Canceled) {
					return nil
				}
				return err
			}
		}
		if err := r.plain.Delete(ctx, messages); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// settleOne reads one request and gives it a place, in one transaction.
func (r *requestRows) settleOne(ctx context.Context, m promotion.Delivery) error {
	members, err := promotion.DecodeBody(m.Body)
	if err != nil {
		return err
	}
	message := members[0] // the only one: the baseline sends one request per message
	capacityKey, requestKey := table.CapacityKey(message.EventID), table.RequestKey(message.RequestID)
	items, err := r.store.Read(ctx, capacityKey, requestKey, table.LockKey(message.EventID, message.UserID))
	if err != nil {
		return err
	}
	places, err := table.DecodeCapacity(items.Get(capacityKey))
	if err != nil {
		return err
	}
	request, err := table.DecodeRequest(items.Get(requestKey))
	if err != nil {
		return err
	}
	now, after := r.store.Millis(), places
	after.Remaining, after.UpdatedAt, after.SentAt = places.Remaining-1, now, max(places.SentAt, m.SentAt)
	tx := r.store.Begin()
	tx.Change(0, request.Won(now, places.Total-after.Remaining, promotion.Turn{SequenceNumber: m.SequenceNumber, SentAt: m.SentAt}))
	tx.Update(table.Shared, capacityKey, pkgdynamo.Diff(table.CapacityItem(&places), table.CapacityItem(&after)), table.Condition{
		Expression: "capacityRemaining = :before", Values: pkgdynamo.Item{":before": pkgdynamo.Number(places.Remaining)},
	})
	return tx.Commit(ctx)
}
