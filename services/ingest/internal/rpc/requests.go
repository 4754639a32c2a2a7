// Package rpc serves promotions and requests over gRPC.
package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/batchrpc"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

const (
	admin        = "admin"
	defaultLimit = 20
)

// Queries reads users' requests and their timelines.
type Queries interface {
	Get(ctx context.Context, id string) (promotion.Request, error)
	// LockOf returns a user's lock for a promotion. Concurrent calls share their reads.
	LockOf(ctx context.Context, eventID, user string) (promotion.Lock, error)
	ActiveOf(ctx context.Context, eventID, user string) (promotion.Request, error)
	// LatestOf finds a user's latest request to a promotion, without using the lock.
	LatestOf(ctx context.Context, eventID, user string) (promotion.Request, error)
	Timeline(ctx context.Context, id string) ([]promotion.LogEntry, error)
	ListOfUser(ctx context.Context, user, cursor string, limit int) (page []promotion.Request, next string, err error)
}

// Requests is the gRPC server of IngestService, which users call.
type Requests struct {
	ingestv1.UnimplementedIngestServiceServer
	Config
}

// Config has the dependencies of Requests.
type Config struct {
	Requests   *request.Service
	Promotions *request.PromotionService
	Places     *request.Places
	Draws      *request.Draws
	Receipts   *request.Receipts
	Queries    Queries
	Now        func() time.Time
	Log        *slog.Logger
}

// New returns a Requests with these dependencies.
func New(c Config) *Requests { return &Requests{Config: c} }

func (s *Requests) millis() int64 { return s.Now().UnixMilli() }

func (s *Requests) ListPromotions(ctx context.Context, in *ingestv1.ListPromotionsRequest) (*ingestv1.ListPromotionsResponse, error) {
	if c := in.GetCursor(); c != "" && !ids.ValidUUID(c) {
		return nil, errs.ErrInvalidCursor
	}
	page, next, err := s.Promotions.List(ctx, in.GetCursor(), pageLimit(in.GetLimit()))
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListPromotionsResponse{NextCursor: next}
	for i := range page {
		out.Items = append(out.Items, fromPromotion(&page[i], s.millis()))
	}
	return out, nil
}

func (s *Requests) GetPromotion(ctx context.Context, in *ingestv1.GetPromotionRequest) (*ingestv1.Promotion, error) {
	p, err := s.Promotions.Get(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	left, limited, err := s.Places.Left(ctx, &p)
	if err != nil {
		return nil, err
	}
	out := fromPromotion(&p, s.millis())
	if limited {
		if left > exactPlaces {
			left -= left % exactPlaces
		}
		out.Remaining = &left
	}
	return out, nil
}

// exactPlaces is the maximum number of free places that users see as an exact number. A greater
// number is rounded down to a multiple of exactPlaces.
const exactPlaces = 100

func (s *Requests) Apply(ctx context.Context, in *ingestv1.ApplyRequest) (*ingestv1.ApplyResponse, error) {
	var failed batchrpc.Failures
	defer func() {
		if args := failed.Args(); args != nil {
			s.Log.ErrorContext(ctx, "applications not taken", args...)
		}
	}()
	result := func(a request.ApplyResult, err error) *ingestv1.ApplyResult {
		if err != nil {
			problem := failed.Problem(err)
			answered.WithLabelValues(problem.GetReason()).Inc()
			return &ingestv1.ApplyResult{Result: &ingestv1.ApplyResult_Problem{Problem: problem}}
		}
		answered.WithLabelValues(outcomeLabel(a)).Inc()
		return &ingestv1.ApplyResult{Result: &ingestv1.ApplyResult_Applied{Applied: fromApplied(&a, s.millis())}}
	}
	if all, ok := s.applySoldOut(ctx, in.GetItems()); ok {
		out := &ingestv1.ApplyResponse{}
		for _, got := range all {
			out.Results = append(out.Results, result(got.Value, got.Err))
		}
		return out, nil
	}
	return &ingestv1.ApplyResponse{Results: batchrpc.PerItem(ctx, in.GetItems(), s.apply, result)}, nil
}

// applySoldOut answers the items if all are valid applications to one sold-out promotion.
func (s *Requests) applySoldOut(ctx context.Context, items []*ingestv1.ApplyItem) ([]request.Outcome[request.ApplyResult], bool) {
	p, ok := s.Requests.SoldOut(ctx, items[0].GetEventId())
	if !ok {
		return nil, false
	}
	all := make([]request.Application, len(items))
	for i, it := range items {
		a, err := toApplication(it)
		if err != nil || a.EventID != p.EventID {
			return nil, false
		}
		a.Promotion = p
		all[i] = a
	}
	out := s.Requests.ApplySoldOut(ctx, all)
	for i := range out {
		if out[i].Err == nil {
			out[i].Value, out[i].Err = s.shown(ctx, out[i].Value)
		}
	}
	return out, true
}

func toApplication(in *ingestv1.ApplyItem) (request.Application, error) {
	a := request.Application{EventID: in.GetEventId()}
	var err error
	if a.UserID, err = rpc.ValidUserFrom(in); err != nil {
		return a, err
	}
	key, err := idempotency.New(a.UserID, "ingest.apply", in.GetCaller().GetIdempotencyKey())
	if key != nil {
		sum := sha256.Sum256([]byte(key.Key))
		a.KeyHash = hex.EncodeToString(sum[:])
	}
	return a, err
}

func (s *Requests) apply(ctx context.Context, in *ingestv1.ApplyItem) (request.ApplyResult, error) {
	a, err := toApplication(in)
	if err != nil {
		return request.ApplyResult{}, err
	}
	applied, err := s.Requests.Apply(ctx, a)
	if err != nil {
		return applied, err
	}
	return s.shown(ctx, applied)
}

// shown returns a result whose request has the form that users may see.
func (s *Requests) shown(ctx context.Context, applied request.ApplyResult) (request.ApplyResult, error) {
	shown, err := s.Draws.Show(ctx, applied.Request)
	if err == nil {
		applied.Request = shown[0]
	}
	return applied, err
}

func (s *Requests) GetMyRequest(ctx context.Context, in *ingestv1.GetMyRequestRequest) (*ingestv1.EventRequest, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	r, found, err := s.announcedEntry(ctx, in.GetEventId(), user)
	if err != nil {
		return nil, err
	}
	if found {
		return s.answer(ctx, &r, false)
	}
	r, err = s.Queries.ActiveOf(ctx, in.GetEventId(), user)
	if errors.Is(err, request.ErrNotFound) {
		if p, unknown := s.Promotions.Get(ctx, in.GetEventId()); unknown == nil && p.LocksExpired(s.millis()) {
			r, err = s.Queries.LatestOf(ctx, in.GetEventId(), user)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, &r, false)
}

// announcedEntry returns a user's request to an announced lottery, reading only the user's lock. If
// found is false, the request itself must be read.
func (s *Requests) announcedEntry(ctx context.Context, eventID, user string) (r promotion.Request, found bool, err error) {
	p, err := s.Promotions.Get(ctx, eventID)
	if errors.Is(err, errs.ErrPromotionNotFound) || err == nil && !p.ResultDue(s.millis()) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	lock, err := s.Queries.LockOf(ctx, eventID, user)
	if errors.Is(err, request.ErrNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	return s.Draws.EntryOf(ctx, eventID, user, &lock)
}

// answer converts a request to the form that its user or an operator may see, with its receipt.
func (s *Requests) answer(ctx context.Context, r *promotion.Request, operator bool) (*ingestv1.EventRequest, error) {
	storedBy := s.millis()
	shown, err := s.Draws.Show(ctx, *r)
	if err != nil {
		return nil, err
	}
	out := fromRequest(&shown[0], s.millis(), operator)
	if r.EventType != promotion.Lottery {
		return out, nil
	}
	p, err := s.Promotions.Get(ctx, r.EventID)
	if err != nil {
		return nil, err
	}
	out.Receipt = rpc.Optional(s.Receipts.ReceiptFor(&p, r, storedBy))
	return out, nil
}

func (s *Requests) ListMyRequests(ctx context.Context, in *ingestv1.ListMyRequestsRequest) (*ingestv1.ListRequestsResponse, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	after, err := cursor.ParseText(in.GetCursor(), cursorPrefix)
	if err != nil {
		return nil, err
	}
	page, next, err := s.Queries.ListOfUser(ctx, user, after, pageLimit(in.GetLimit()))
	if err != nil {
		return nil, err
	}
	if page, err = s.Draws.Show(ctx, page...); err != nil {
		return nil, err
	}
	return fromPage(page, next, s.millis(), false), nil
}

func (s *Requests) GetRequest(ctx context.Context, in *ingestv1.GetRequestRequest) (*ingestv1.EventRequest, error) {
	r, operator, err := s.visibleRequest(ctx, in, in.GetRequestId())
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, &r, operator)
}

func (s *Requests) GetTimeline(ctx context.Context, in *ingestv1.GetTimelineRequest) (*ingestv1.Timeline, error) {
	r, _, err := s.visibleRequest(ctx, in, in.GetRequestId())
	if err != nil {
		return nil, err
	}
	logs, err := s.Queries.Timeline(ctx, r.RequestID)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.Timeline{}
	for _, l := range s.Draws.Timeline(&r, logs) {
		out.Items = append(out.Items, &ingestv1.StatusChange{FromStatus: string(l.From), ToStatus: string(l.To), OccurredAt: l.OccurredAt})
	}
	return out, nil
}

// visibleRequest reads a request of the caller, or any request for an operator. It fails with
// ErrNotFound for the request of another user.
func (s *Requests) visibleRequest(ctx context.Context, in any, id string) (r promotion.Request, operator bool, err error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return r, false, err
	}
	operator = rpc.HasRole(rpc.CallerFrom(in), admin)
	if r, err = s.Queries.Get(ctx, id); err != nil {
		return r, operator, err
	}
	if r.UserID != user && !operator {
		return r, false, request.ErrNotFound
	}
	return r, operator, nil
}

func pageLimit(n int32) int { return cmp.Or(int(n), defaultLimit) }

// cursorPrefix is the prefix of the sort keys in the indexes of requests.
const cursorPrefix = "QAT#"
