package request

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
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
	Promotion(ctx context.Context, eventID string) (promotion.Promotion, error)
	// Users are the users of requests by their ids; one that has expired is left out.
	Users(ctx context.Context, requestIDs []string) (map[string]string, error)
	// Capacity is what is left of a first-come promotion; limited is false for others.
	Capacity(ctx context.Context, eventID string) (c promotion.Capacity, limited bool, err error)
	// Succeeded are all successful requests to a promotion, in any order; the latest may be missing.
	Succeeded(ctx context.Context, p *promotion.Promotion) ([]promotion.Request, error)
}

// Exporter lists who has a place.
type Exporter struct {
	draws *Draws
	store WinnerStore
}

// NewExporter makes an exporter.
func NewExporter(draws *Draws, store WinnerStore) *Exporter {
	return &Exporter{draws: draws, store: store}
}

// Range selects a part of a list of winners.
type Range struct {
	// After is the rank behind which the part begins.
	After int64
	// Limit is how many winners the part has at most; 0: all of them.
	Limit int
}

// part returns the part of a list, and whether something follows it.
func part[T any](r Range, list []T) (selected []T, more bool) {
	list = list[min(r.After, int64(len(list))):]
	if r.Limit == 0 || r.Limit >= len(list) {
		return list, false
	}
	return list[:r.Limit], true
}

// Winners calls each with a part of the winners of an announced lottery in the order of their
// ranks, or of the successful requests of first come in the order of the queue, some at a time.
// more reports that others follow; successful requests that come later follow too.
func (e *Exporter) Winners(ctx context.Context, eventID string, r Range, each func([]Winner) error) (more bool, err error) {
	p, err := e.store.Promotion(ctx, eventID)
	if err != nil {
		return false, err
	}
	if p.EventType == promotion.Lottery {
		return e.drawn(ctx, eventID, r, each)
	}
	return e.firstCome(ctx, &p, r, each)
}

func (e *Exporter) drawn(ctx context.Context, eventID string, r Range, each func([]Winner) error) (more bool, err error) {
	result, err := e.draws.Result(ctx, eventID)
	if err != nil {
		return false, err
	}
	if result == nil {
		return false, errs.ErrAnnouncementEarly
	}
	winners, more := part(r, result.Winners)
	for chunk := range slices.Chunk(winners, exportPage) {
		ids := make([]string, len(chunk))
		for i, id := range chunk {
			ids[i] = id.String()
		}
		users, err := e.store.Users(ctx, ids)
		if err != nil {
			return false, err
		}
		page := make([]Winner, len(ids))
		for i, id := range ids {
			page[i] = Winner{RequestID: id, UserID: users[id]}
		}
		if err := each(page); err != nil {
			return false, err
		}
	}
	return more, nil
}

func (e *Exporter) firstCome(ctx context.Context, p *promotion.Promotion, r Range, each func([]Winner) error) (more bool, err error) {
	capacity, _, err := e.store.Capacity(ctx, p.EventID)
	if err != nil {
		return false, err
	}
	requests, err := e.store.Succeeded(ctx, p)
	if err != nil {
		return false, err
	}
	if given := capacity.Total - capacity.Remaining; int64(len(requests)) < given && !p.RequestsExpired(e.draws.now().UnixMilli()) {
		return false, errs.ErrUnavailable.WithRetry(indexRetry).Wrap(fmt.Errorf("the index has %d of %d successful requests", len(requests), given))
	}
	all := make([]Winner, len(requests))
	for i := range requests {
		all[i] = Winner{RequestID: requests[i].RequestID, UserID: requests[i].UserID, queueSeq: requests[i].QueueSeq}
	}
	slices.SortFunc(all, func(a, b Winner) int { return strings.Compare(a.queueSeq, b.queueSeq) })
	winners, more := part(r, all)
	for page := range slices.Chunk(winners, exportPage) {
		if err := each(page); err != nil {
			return false, err
		}
	}
	return more, nil
}

// Announce confirms that the result of a lottery is announced, and never earlier.
func (s *Draws) Announce(ctx context.Context, eventID string) (promotion.Promotion, error) {
	st, err := s.states.Get(ctx, eventID)
	if err == nil && !s.announced(&st) {
		err = errs.ErrAnnouncementEarly
	}
	return st.promotion, err
}
