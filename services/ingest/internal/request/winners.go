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

// exportPage is the number of winners in a part of the list, whose users are read at once.
const exportPage = 1000

// indexRetry is the time in which an index should catch up with the table.
const indexRetry = time.Second

// Winner is a successful request.
type Winner struct {
	RequestID, UserID string

	queueSeq string // order of the winners of a first-come promotion
}

// WinnerStore reads promotions and their successful requests in bulk.
type WinnerStore interface {
	Promotion(ctx context.Context, eventID string) (promotion.Promotion, error)
	// Users returns the users of requests by the ids of these; expired requests are left out.
	Users(ctx context.Context, requestIDs []string) (map[string]string, error)
	// Capacity returns the capacity of a first-come promotion; limited is false for others.
	Capacity(ctx context.Context, eventID string) (c promotion.Capacity, limited bool, err error)
	// Succeeded returns the successful requests to a promotion in any order; the latest may be missing.
	Succeeded(ctx context.Context, p *promotion.Promotion) ([]promotion.Request, error)
}

// Exporter lists the winners of promotions for operators.
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
	After int64 // the rank behind which the part begins
	Limit int   // of the part; 0: none
}

// part returns the selected part of a list; more reports whether others follow.
func part[T any](r Range, list []T) (selected []T, more bool) {
	list = list[min(r.After, int64(len(list))):]
	if r.Limit == 0 || r.Limit >= len(list) {
		return list, false
	}
	return list[:r.Limit], true
}

// Winners calls each with the selected winners, some at a time: those of an announced lottery in the
// order of their ranks, those of a first-come promotion in the order of the queue. more reports that
// others follow; requests that succeed later follow too.
func (e *Exporter) Winners(ctx context.Context, eventID string, r Range, each func([]Winner) error) (more bool, err error) {
	p, err := e.store.Promotion(ctx, eventID)
	if err != nil {
		return false, err
	}
	if p.EventType == promotion.Lottery {
		return e.lotteryWinners(ctx, eventID, r, each)
	}
	return e.firstComeWinners(ctx, &p, r, each)
}

func (e *Exporter) lotteryWinners(ctx context.Context, eventID string, r Range, each func([]Winner) error) (more bool, err error) {
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

func (e *Exporter) firstComeWinners(ctx context.Context, p *promotion.Promotion, r Range, each func([]Winner) error) (more bool, err error) {
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

// Announce returns a lottery whose result is announced; errs.ErrAnnouncementEarly before that.
func (s *Draws) Announce(ctx context.Context, eventID string) (promotion.Promotion, error) {
	st, err := s.states.Get(ctx, eventID)
	if err == nil && !s.announced(&st) {
		err = errs.ErrAnnouncementEarly
	}
	return st.promotion, err
}
