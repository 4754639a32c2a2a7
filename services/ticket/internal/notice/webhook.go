package notice

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Errors of webhooks.
var (
	ErrWebhookNotFound = errs.ErrWebhookNotFound
	ErrTooManyWebhooks = errs.ErrTooManyWebhooks
	errInvalid         = errs.ErrInvalidRequest
)

const (
	// MaxWebhooks is the most webhooks that may exist: each gets a copy of the notices.
	MaxWebhooks = 20
	// SecretOverlap is how long a secret that was replaced still signs, besides the new one.
	SecretOverlap = 24 * time.Hour
	// MaxReplay is the most notices of one replay.
	MaxReplay = 1000

	secretPrefix         = "whsec_"
	minSecret, maxSecret = 24, 64
)

// Webhook is a receiver of notices by HTTP.
type Webhook struct {
	ID        uuid.UUID
	Name, URL string
	Types     []string
	// Secret signs the requests; until FormerUntil, FormerSecret signs them as well.
	Secret, FormerSecret string
	FormerUntil          time.Time
	CreatedAt, UpdatedAt time.Time
}

// Secrets returns the secrets that sign at a time.
func (w *Webhook) Secrets(now time.Time) []string {
	if w.FormerSecret == "" || !now.Before(w.FormerUntil) {
		return []string{w.Secret}
	}
	return []string{w.Secret, w.FormerSecret}
}

// check returns ErrInvalidRequest with the fields that are wrong. allowHTTP accepts http URLs too.
func (w *Webhook) check(allowHTTP bool) error {
	var bad []errs.Field
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Fragment != "" || u.User != nil:
		bad = append(bad, errs.Field{Path: "url", Message: "must be an address as https://example.com/notices"})
	case u.Scheme != "https" && (!allowHTTP || u.Scheme != "http"):
		bad = append(bad, errs.Field{Path: "url", Message: "must begin with https://"})
	}
	if w.Secret != "" {
		encoded, prefixed := strings.CutPrefix(w.Secret, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !prefixed || err != nil || len(key) < minSecret || len(key) > maxSecret {
			bad = append(bad, errs.Field{Path: "secret", Message: "must be whsec_ and 24 to 64 bytes in base64"})
		}
	}
	if len(bad) > 0 {
		return errInvalid.WithFields(bad...)
	}
	return nil
}

// LogEntry is the state of the delivery of one notice to a webhook.
type LogEntry struct {
	NoticeID    uuid.UUID
	Type        Type
	Entity      string
	State       State
	Attempts    int
	Last        Outcome
	CreatedAt   time.Time
	NextAttempt time.Time
	DeliveredAt time.Time
}

// Replay asks to send notices again: those with the IDs or, if there are none, all since Since.
type Replay struct {
	IDs   []uuid.UUID
	Since time.Time
}

// WebhookStore stores webhooks and the deliveries to them.
type WebhookStore interface {
	// PutWebhook makes or changes a webhook. An empty secret keeps the stored one (none: errMissing).
	PutWebhook(ctx context.Context, w Webhook, errMissing error) (Webhook, error)
	ListWebhooks(ctx context.Context) ([]Webhook, error)
	DeleteWebhook(ctx context.Context, name string) error
	// Log returns deliveries of notices with smaller ids than before (zero: all), newest first.
	Log(ctx context.Context, name string, limit int, before uuid.UUID) ([]LogEntry, error)
	// Replay queues at most max notices, and returns Since for the next call; zero: all are queued.
	Replay(ctx context.Context, name string, r Replay, max int) (queued int, next time.Time, err error)
}

// Webhooks manages webhooks for operators.
type Webhooks struct {
	store     WebhookStore
	allowHTTP bool
}

// NewWebhooks makes a Webhooks. allowHTTP accepts http URLs too, for development.
func NewWebhooks(store WebhookStore, allowHTTP bool) *Webhooks {
	return &Webhooks{store: store, allowHTTP: allowHTTP}
}

// Put makes or changes a webhook. Errors: errs.ErrInvalidRequest, ErrTooManyWebhooks.
func (s *Webhooks) Put(ctx context.Context, w Webhook) (Webhook, error) {
	if err := w.check(s.allowHTTP); err != nil {
		return Webhook{}, err
	}
	return s.store.PutWebhook(ctx, w, errInvalid.WithFields(errs.Field{Path: "secret", Message: "is required for a new webhook"}))
}

// List returns all webhooks, by name.
func (s *Webhooks) List(ctx context.Context) ([]Webhook, error) { return s.store.ListWebhooks(ctx) }

// Delete ends a webhook. It may be repeated.
func (s *Webhooks) Delete(ctx context.Context, name string) error {
	return s.store.DeleteWebhook(ctx, name)
}

// Log returns a webhook's deliveries, newest first, and `before` for the next page (zero: none).
func (s *Webhooks) Log(ctx context.Context, name string, limit int, before uuid.UUID) ([]LogEntry, uuid.UUID, error) {
	list, err := s.store.Log(ctx, name, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].NoticeID, nil
}

// Replay sends notices again. next is Since for the next call; zero: all are queued.
func (s *Webhooks) Replay(ctx context.Context, name string, r Replay) (queued int, next time.Time, err error) {
	if (len(r.IDs) == 0) == r.Since.IsZero() {
		return 0, next, errInvalid.WithFields(errs.Field{Path: "since", Message: "is required, or else noticeIds"})
	}
	return s.store.Replay(ctx, name, r, MaxReplay)
}
