package table

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// Store reads and writes the table of promotions and requests, which ingest and worker share. One
// that writes figures of events is made by NewStore.
type Store struct {
	Client *dynamodb.Client
	Table  string // full name of the table
	Now    func() time.Time
	Log    *slog.Logger // gets an error per item that cannot be decoded and is skipped; may be nil

	slots *figureSlots // nil: it cannot write figures
}

// NewStore makes the Store of a process for the table of the leases. It needs the leases for its
// share of the items with figures.
func NewStore(leases dynamo.Leases) Store {
	return Store{Client: leases.Client, Table: leases.Table, Now: leases.Now, slots: newFigureSlots(leases)}
}

func (s Store) Millis() int64 { return s.Now().UnixMilli() }

// Begin makes a transaction without writes.
func (s Store) Begin() *Tx { return s.BeginAt(s.Millis()) }

// BeginAt makes a transaction without writes, for decisions that were made at the time now.
func (s Store) BeginAt(now int64) *Tx {
	return &Tx{
		client: s.Client, table: s.Table, now: now, slots: s.slots,
		counts: map[string]*promotion.Counts{}, groups: map[entryGroup]*groupChange{}, outbox: -1,
	}
}

// Read reads the items with these keys consistently; absent items are left out. A repeated key is
// read once, since DynamoDB refuses to read it twice.
func (s Store) Read(ctx context.Context, keys ...dynamo.Item) (Items, error) {
	return s.read(ctx, dynamo.BatchGet, keys)
}

// ReadEventual is Read with eventually consistent reads.
func (s Store) ReadEventual(ctx context.Context, keys ...dynamo.Item) (Items, error) {
	return s.read(ctx, dynamo.BatchGetEventual, keys)
}

type batchGet func(ctx context.Context, client *dynamodb.Client, table string, keys []dynamo.Item) ([]dynamo.Item, error)

func (s Store) read(ctx context.Context, get batchGet, keys []dynamo.Item) (Items, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	seen := make(map[string]bool, len(keys))
	unique := make([]dynamo.Item, 0, len(keys))
	for _, key := range keys {
		if text := keyText(key); !seen[text] {
			seen[text] = true
			unique = append(unique, key)
		}
	}
	got, err := get(ctx, s.Client, s.Table, unique)
	if err != nil {
		return nil, dynamo.Err(err)
	}
	items := make(Items, len(got))
	for _, it := range got {
		items[keyText(it)] = it
	}
	return items, nil
}

// Ping fails if DynamoDB does not answer. That it throttles the read is an answer.
func (s Store) Ping(ctx context.Context) error {
	_, err := s.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: RequestKey("ping")})
	if dynamo.Throttled(err) {
		return nil
	}
	return dynamo.Err(err)
}

// Request reads a request. found is false when it does not exist or has expired.
func (s Store) Request(ctx context.Context, id string) (r promotion.Request, found bool, err error) {
	items, err := s.Read(ctx, RequestKey(id))
	if err != nil {
		return r, false, err
	}
	it := items.Get(RequestKey(id))
	if it == nil || Expired(it, s.Millis()) {
		return r, false, nil
	}
	r, err = DecodeRequest(it)
	return r, err == nil, err
}

// markedAtOnce is the most requests that a transaction marks as queued, up to three items each.
const markedAtOnce = 30

// MarkUnsettled records that the queue accepted requests at takenAt, except those that have changed
// since they were created. It reads them first, since workers have processed most of them by then.
func (s Store) MarkUnsettled(ctx context.Context, accepted []promotion.Request, takenAt int64) error {
	keys := make([]dynamo.Item, len(accepted))
	for i := range accepted {
		keys[i] = RequestKey(accepted[i].RequestID)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return err
	}
	unsettled := slices.Clone(accepted)
	unsettled = slices.DeleteFunc(unsettled, func(r promotion.Request) bool {
		stored, err := DecodeRequest(items.Get(RequestKey(r.RequestID)))
		return err != nil || stored.StatusAt != r.StatusAt || stored.Status != r.Status || stored.Gen != r.Gen
	})
	_, err = s.MarkQueued(ctx, unsettled, takenAt)
	return err
}

// MarkQueued records that the queue accepted the messages of requests at takenAt, and returns the
// requests in their new state. Requests that have changed since they were read are skipped, and
// returned as they were read.
func (s Store) MarkQueued(ctx context.Context, requests []promotion.Request, takenAt int64) (out []promotion.Request, failure error) {
	for chunk := range slices.Chunk(requests, markedAtOnce) {
		marked, err := s.markQueued(ctx, chunk, takenAt)
		out, failure = append(out, marked...), errors.Join(failure, err)
	}
	return out, failure
}

func (s Store) markQueued(ctx context.Context, requests []promotion.Request, takenAt int64) ([]promotion.Request, error) {
	out := slices.Clone(requests)
	remaining := make([]int, len(requests))
	for i := range remaining {
		remaining[i] = i
	}
	for len(remaining) > 0 {
		tx := s.Begin()
		for _, i := range remaining {
			r := requests[i]
			if r.Status == promotion.Received {
				c := r.Queued(takenAt)
				tx.Change(i, c)
				out[i] = c.After
			} else { // its message was sent again: only the marker changes
				tx.Check(i, RequestKey(r.RequestID), RequestUnchanged(&r))
			}
			m := promotion.MarkerOf(&r, s.Millis())
			m.QueuedAt = takenAt
			tx.Put(i, MarkerItem(&m), Present())
		}
		err := tx.Commit(ctx)
		if err == nil {
			break
		}
		changed := tx.Failed(err)
		if len(changed) == 0 {
			return requests, err
		}
		for i := range changed {
			out[i] = requests[i]
		}
		remaining = slices.DeleteFunc(remaining, func(i int) bool { return changed[i] })
	}
	return out, nil
}

// FinishSettled does what Tx.Settle left out for these requests: it writes their logs, then deletes
// their markers. It may be repeated. While a request has its marker its log may lack entries, which
// Request.SettledLog computes.
func (s Store) FinishSettled(ctx context.Context, settled []promotion.Request) error {
	var logs, markers []dynamo.Item
	seen := make(map[string]bool, len(settled)) // a call must not write an item twice
	for i := range settled {
		entries, ok := settled[i].SettledLog()
		if !ok || seen[settled[i].RequestID] {
			continue
		}
		seen[settled[i].RequestID] = true
		for n := range entries {
			logs = append(logs, LogItem(&entries[n]))
		}
		m := promotion.MarkerOf(&settled[i], 0)
		markers = append(markers, MarkerKey(&m))
	}
	if err := dynamo.BatchPut(ctx, s.Client, s.Table, logs); err != nil {
		return dynamo.Err(err)
	}
	return dynamo.Err(dynamo.BatchDelete(ctx, s.Client, s.Table, markers))
}

// FindOfUser passes the requests of a user to a promotion to match, the latest first, until it returns
// true. Each comes with its item, and with an error if that cannot be decoded. They are read from the
// user's index, which may lack those of the last seconds.
func (s Store) FindOfUser(
	ctx context.Context, eventID, user string, match func(it dynamo.Item, r *promotion.Request, err error) bool,
) (found bool, err error) {
	pages := dynamodb.NewQueryPaginator(s.Client, &dynamodb.QueryInput{
		TableName: &s.Table, IndexName: aws.String(GSI1), ScanIndexForward: aws.Bool(false),
		KeyConditionExpression: aws.String(GSI1PK + " = :pk"), FilterExpression: aws.String("eventId = :event"),
		ExpressionAttributeValues: dynamo.Item{":pk": dynamo.String(UserIndex(user)), ":event": dynamo.String(eventID)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return false, dynamo.Err(err)
		}
		for _, it := range page.Items {
			if r, err := DecodeRequest(it); match(it, &r, err) {
				return true, nil
			}
		}
	}
	return false, nil
}

// appliedAgain reports whether the user has applied after this request, by the user's index. An
// application that cannot be read is one; one that never got into the queue is none.
func (s Store) appliedAgain(ctx context.Context, r *promotion.Request) (again bool, err error) {
	_, err = s.FindOfUser(ctx, r.EventID, r.UserID, func(_ dynamo.Item, other *promotion.Request, err error) bool {
		own := err == nil && other.RequestID == r.RequestID
		again = !own && (err != nil || other.ResultCode != promotion.FailedIngestEnqueue)
		return own || again
	})
	return again, err
}

// Redrive puts a failed request back into the queue: it writes a new generation, a marker and, if
// it has expired, the user's lock. If the user applies again at the same time only one of the two
// succeeds, since both require the lock as it was. No user applies any more when locks expire, so
// the index then shows all applications.
func (s Store) Redrive(ctx context.Context, id string) (promotion.Request, error) {
	r, found, err := s.Request(ctx, id)
	if errors.Is(err, promotion.ErrUnreadable) {
		s.ReportSkipped(ctx, RequestKey(id), err)
		return r, promotion.ErrNotRedrivable
	}
	if err != nil {
		return r, err
	}
	if !found || !r.Redrivable() {
		return r, promotion.ErrNotRedrivable
	}
	if r.LockExpired(s.Millis()) {
		again, err := s.appliedAgain(ctx, &r)
		if err != nil {
			return r, err
		}
		if again {
			return r, promotion.ErrNotRedrivable
		}
	}
	c := r.Redriven(s.Millis())
	tx := s.Begin()
	tx.Change(0, c)
	lock := promotion.Lock{EventID: r.EventID, UserID: r.UserID, RequestID: id, CreatedAt: r.RequestedAt, EndsAt: r.EndsAt}
	tx.Update(0, LockKey(r.EventID, r.UserID), lockUpdate(&lock), lockAbsentOrNames(id))
	err = tx.Commit(ctx)
	if len(tx.Failed(err)) > 0 {
		return r, promotion.ErrNotRedrivable
	}
	return c.After, err
}
