// Package dynamo stores promotions and requests in the DynamoDB table AsyncEventTable.
package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

const (
	maxGroup       = 10   // the most applications in one transaction; each needs at most 6 items
	groupsInflight = 4    // how many transactions of one promotion a replica writes at once
	maxPromotions  = 1024 // the most promotions with applications in progress
	leaseLife      = 15 * time.Second
	retryAfter     = time.Second
)

// CallTimeout is the time limit of one call for several applications that wait for it.
const CallTimeout = 5 * time.Second

var (
	_ request.Store          = (*Store)(nil)
	_ request.PromotionStore = (*Store)(nil)
	_ request.PendingStore   = (*Store)(nil)
)

// Store reads and writes promotions and requests. It is safe for concurrent use.
type Store struct {
	table.Store

	// Skew returns by how much this machine's clock is wrong; 0 for a negligible difference.
	Skew func() time.Duration

	leases   dynamo.Leases
	accepts  *batch.Groups[string, request.Application, request.ApplyResult]
	locks    *batch.Coalescer[request.Applicant, *promotion.Lock]
	earlier  *batch.Coalescer[request.Applicant, request.EarlierApplications]
	refusals *batch.Coalescer[request.Application, struct{}]
}

// New returns a Store that uses the table whose name begins with the prefix in cfg. timeout limits
// the calls for which applications wait: CallTimeout, and more in tests.
func New(db *dynamodb.Client, cfg dynamo.Config, timeout time.Duration, now func() time.Time) *Store {
	name := cfg.Table(table.TableName)
	leases := dynamo.Leases{Client: db, Table: name, Owner: ids.NewV7().String(), Life: leaseLife, Now: now}
	s := &Store{
		Store:  table.NewStore(leases),
		Skew:   dynamo.ClockSkew,
		leases: leases,
	}
	s.accepts = batch.NewGroups(batch.Config{Max: maxGroup, Inflight: groupsInflight, Timeout: timeout}, maxPromotions, s.acceptGroup)
	s.locks = batch.NewItems(batch.Config{Max: maxEarlier, Inflight: groupsInflight, Timeout: timeout}, s.readLockItems)
	s.earlier = batch.NewItems(batch.Config{Max: maxEarlier, Inflight: groupsInflight, Timeout: timeout}, s.readEarlier)
	s.refusals = batch.NewItems(batch.Config{Max: maxGroup, Inflight: groupsInflight, Timeout: refusalTimeout, Keep: true}, s.recordRefusals)
	return s
}

// Close waits for the applications in progress, and then for the writes of refusals.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.accepts.Close(ctx), s.locks.Close(ctx), s.earlier.Close(ctx), s.refusals.Close(ctx))
}

// Migrate creates the table unless it exists.
func Migrate(ctx context.Context, db *dynamodb.Client, cfg dynamo.Config) error {
	return dynamo.EnsureTable(ctx, db, table.Table(cfg))
}

// toUnavailable converts an error to errs.ErrUnavailable, except an *errs.Error and the end of ctx.
func toUnavailable(err error) error {
	var known *errs.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errs.ErrUnavailable.WithRetry(retryAfter).Wrap(err)
}

func (s *Store) Load(ctx context.Context, eventID string) (request.PromotionLoad, error) {
	counts, err := s.Figures(ctx, eventID)
	return request.PromotionLoad{Unsettled: counts.Waiting()}, err
}

func (s *Store) Capacity(ctx context.Context, eventID string) (c promotion.Capacity, limited bool, err error) {
	items, err := s.Read(ctx, table.CapacityKey(eventID))
	if err != nil {
		return c, false, toUnavailable(err)
	}
	it := items.Get(table.CapacityKey(eventID))
	if it == nil {
		return c, false, nil
	}
	c, err = table.DecodeCapacity(it)
	return c, true, toUnavailable(err)
}
