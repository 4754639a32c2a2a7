package request

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/errs"
)

// exportPage bounds the winners whose users are read at a time, and those of a part of the list.
const exportPage = 1000

// indexRetry is when an index that is behind the table should have caught up.
const indexRetry = time.Second

// Winner is a request with a place.
type Winner struct {
	RequestID, UserID string
	// queueSeq orders the winners of first come.
	queueSeq string
}

// WinnerStore reads requests in bulk.
type WinnerStore interface {
	// Users are the users of requests by their ids; one that has expired is left out.
	Users(ctx context.Context, requestIDs []string) (map[string]string, error)
	// Capacity is what is left of a first-come promotion; limited is false for others.
	Capacity(ctx context.Context, eventID string) (c asyncevent.Capacity, limited bool, err error)
	// Succeeded are all successful requests to a promotion, in any order; the latest may be missing.
	Succeeded(ctx context.Context, p *asyncevent.Promotion) ([]asyncevent.Request, error)
}

// Exporter lists who has a place.
type Exporter struct {
	promotions PromotionStore
	draws      *Draws
	store      WinnerStore
}

// NewExporter makes an exporter.
func NewExporter(promotions PromotionStore, draws *Draws, store WinnerStore) *Exporter {
	return &Exporter{promotions: promotions, draws: draws, store: store}
}

// Winners calls each with the winners of an announced lottery in the order of their ranks, or with the
// successful requests of first come in the order of the queue, some at a time.
func (e *Exporter) Winners(ctx context.Context, eventID string, each func([]Winner) error) error {
	p, err := e.promotions.Promotion(ctx, eventID)
	if err != nil {
		return err
	}
	if p.EventType == asyncevent.Lottery {
		return e.drawn(ctx, eventID, each)
	}
	return e.firstCome(ctx, &p, each)
}

func (e *Exporter) drawn(ctx context.Context, eventID string, each func([]Winner) error) error {
	result, err := e.draws.Result(ctx, eventID)
	if err != nil {
		return err
	}
	if result == nil {
		return errs.ErrAnnouncementEarly
	}
	for part := range slices.Chunk(result.Winners, exportPage) {
		ids := make([]string, len(part))
		for i, id := range part {
			ids[i] = id.String()
		}
		users, err := e.store.Users(ctx, ids)
		if err != nil {
			return err
		}
		page := make([]Winner, len(ids))
		for i, id := range ids {
			page[i] = Winner{RequestID: id, UserID: users[id]}
		}
		if err := each(page); err != nil {
			return err
		}
	}
	return nil
}

func (e *Exporter) firstCome(ctx context.Context, p *asyncevent.Promotion, each func([]Winner) error) error {
	capacity, _, err := e.store.Capacity(ctx, p.EventID)
	if err != nil {
		return err
	}
	requests, err := e.store.Succeeded(ctx, p)
	if err != nil {
		return err
	}
	if given := capacity.Total - capacity.Remaining; int64(len(requests)) < given && !p.Forgotten(e.draws.now().UnixMilli()) {
		return errs.ErrUnavailable.WithRetry(indexRetry).Wrap(fmt.Errorf("the index has %d of %d successful requests", len(requests), given))
	}
	all := make([]Winner, len(requests))
	for i := range requests {
		all[i] = Winner{RequestID: requests[i].RequestID, UserID: requests[i].UserID, queueSeq: requests[i].QueueSeq}
	}
	slices.SortFunc(all, func(a, b Winner) int { return strings.Compare(a.queueSeq, b.queueSeq) })
	for part := range slices.Chunk(all, exportPage) {
		if err := each(part); err != nil {
			return err
		}
	}
	return nil
}

// Announce confirms that the result of a lottery is announced, and never earlier.
func (s *Draws) Announce(ctx context.Context, eventID string) (asyncevent.Promotion, error) {
	st, err := s.states.Get(ctx, eventID)
	if err == nil && !s.announced(&st) {
		err = errs.ErrAnnouncementEarly
	}
	return st.promotion, err
}
