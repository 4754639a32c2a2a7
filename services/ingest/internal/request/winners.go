package request

import (
	"context"
	"slices"
	"strings"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/errs"
)

// exportPage bounds the requests that are read at a time.
const exportPage = 100

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
	OfEvent(ctx context.Context, p *asyncevent.Promotion, f Filter, cursor string, limit int) (page []asyncevent.Request, next string, err error)
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
	var all []Winner
	for cursor := ""; ; {
		page, next, err := e.store.OfEvent(ctx, p, Filter{Status: asyncevent.Succeeded}, cursor, exportPage)
		if err != nil {
			return err
		}
		for i := range page {
			all = append(all, Winner{RequestID: page[i].RequestID, UserID: page[i].UserID, queueSeq: page[i].QueueSeq})
		}
		if cursor = next; cursor == "" {
			break
		}
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
