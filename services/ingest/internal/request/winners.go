package request

import (
	"context"
	"slices"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

// exportPage is how many winners are read and written at once.
const exportPage = 1000

// Winner is a successful request.
type Winner struct {
	RequestID, UserID string
}

// WinnerStore reads promotions and their successful requests in bulk.
type WinnerStore interface {
	Promotion(ctx context.Context, eventID string) (promotion.Promotion, error)
	// Users returns the user of each request, by request id. Expired requests are left out.
	Users(ctx context.Context, requestIDs []string) (map[string]string, error)
	// FirstComeWinners reads a page of the winners of a first-come promotion, beginning after a place.
	// more reports that winners may follow. A winner whose item cannot be read is empty.
	FirstComeWinners(ctx context.Context, eventID string, after int64) (page []Winner, more bool, err error)
}

// Exporter lists the winners of promotions for operators.
type Exporter struct {
	draws *Draws
	store WinnerStore
}

// NewExporter returns an Exporter.
func NewExporter(draws *Draws, store WinnerStore) *Exporter {
	return &Exporter{draws: draws, store: store}
}

// WinnerRange is a part of a list of winners.
type WinnerRange struct {
	After int64 // the part begins after this rank (of a first-come promotion: this place)
	Limit int   // the maximum number of winners; 0: no maximum
}

// selectPart returns the part r of a list. more reports whether items follow.
func selectPart[T any](r WinnerRange, list []T) (selected []T, more bool) {
	list = list[min(r.After, int64(len(list))):]
	if r.Limit == 0 || r.Limit >= len(list) {
		return list, false
	}
	return list[:r.Limit], true
}

// Winners calls each with one page of the selected winners after another. Winners of an announced
// lottery have the order of their ranks, winners of a first-come promotion that of their places.
// more reports that winners follow. Requests that succeed later are added at the end.
func (e *Exporter) Winners(ctx context.Context, eventID string, r WinnerRange, each func([]Winner) error) (more bool, err error) {
	p, err := e.store.Promotion(ctx, eventID)
	if err != nil {
		return false, err
	}
	if p.EventType == promotion.Lottery {
		return e.lotteryWinners(ctx, eventID, r, each)
	}
	return e.firstComeWinners(ctx, eventID, r, each)
}

func (e *Exporter) lotteryWinners(ctx context.Context, eventID string, r WinnerRange, each func([]Winner) error) (more bool, err error) {
	result, err := e.draws.Result(ctx, eventID)
	if err != nil {
		return false, err
	}
	if result == nil {
		return false, errs.ErrAnnouncementEarly
	}
	winners, more := selectPart(r, result.Winners)
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

func (e *Exporter) firstComeWinners(ctx context.Context, eventID string, r WinnerRange, each func([]Winner) error) (more bool, err error) {
	for more = true; more; {
		var page []Winner
		if page, more, err = e.store.FirstComeWinners(ctx, eventID, r.After); err != nil {
			return false, err
		}
		if len(page) == 0 { // the end of the list, or only expired items
			return false, nil
		}
		full := r.Limit > 0 && len(page) >= r.Limit
		if full {
			page, more = page[:r.Limit], more || len(page) > r.Limit
		}
		for chunk := range slices.Chunk(page, exportPage) {
			if err := each(chunk); err != nil {
				return more, err
			}
		}
		if full {
			return more, nil
		}
		r.After, r.Limit = r.After+int64(len(page)), max(0, r.Limit-len(page))
	}
	return false, nil
}

// RequireAnnounced returns a lottery if its result is announced. Before the announcement it fails
// with errs.ErrAnnouncementEarly.
func (s *Draws) RequireAnnounced(ctx context.Context, eventID string) (promotion.Promotion, error) {
	st, err := s.states.Get(ctx, eventID)
	if err == nil && !s.announced(&st) {
		err = errs.ErrAnnouncementEarly
	}
	return st.promotion, err
}
