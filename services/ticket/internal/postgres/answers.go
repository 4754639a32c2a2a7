package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/idempotency"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

// prior is what is known of a request's key: what an earlier request made, or why this one must not run.
type prior struct {
	made string
	err  error
}

// claimKeys takes the locks of the keys (all of one route, nil where there is none) until the end of the transaction and tells what is
// known of each. A key that somebody else has, or that is there twice, is running: idempotency.ErrInProgress.
func claimKeys(ctx context.Context, q *db.Queries, keys []*idempotency.Key) ([]prior, error) {
	priors := make([]prior, len(keys))
	byLock := make(map[int64]int, len(keys))
	var locks []int64
	arg := db.FindAnswersParams{}
	for i, k := range keys {
		if k == nil {
			continue
		}
		if _, twice := byLock[k.Lock()]; twice {
			priors[i].err = idempotency.ErrInProgress
			continue
		}
		byLock[k.Lock()] = i
		locks = append(locks, k.Lock())
		arg.Route, arg.UserIds, arg.Keys = k.Route, append(arg.UserIds, k.UserID), append(arg.Keys, k.Key)
	}
	if len(locks) == 0 {
		return priors, nil
	}
	got, err := q.TryLockKeys(ctx, locks)
	if err != nil {
		return nil, err
	}
	for _, l := range got {
		if !l.Got {
			priors[byLock[l.Lock]].err = idempotency.ErrInProgress
		}
	}
	// After the locks, in a statement of its own: it sees what whoever had a lock before has committed.
	answers, err := q.FindAnswers(ctx, arg)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		k := idempotency.Key{UserID: a.UserID, Route: arg.Route, Key: a.Key}
		i := byLock[k.Lock()]
		switch {
		case priors[i].err != nil:
		case string(a.Fingerprint) != string(keys[i].Fingerprint[:]):
			priors[i].err = idempotency.ErrReused
		default:
			priors[i].made = a.Made
		}
	}
	return priors, nil
}

// claimKey is claimKeys for one key, which may be nil.
func claimKey(ctx context.Context, q *db.Queries, key *idempotency.Key) (made string, err error) {
	priors, err := claimKeys(ctx, q, []*idempotency.Key{key})
	if err != nil {
		return "", err
	}
	return priors[0].made, priors[0].err
}

// saveAnswers remembers what the requests made; keys that are nil are passed over.
func saveAnswers(ctx context.Context, q *db.Queries, keys []*idempotency.Key, made []string) error {
	arg := db.SaveAnswersParams{}
	for i, k := range keys {
		if k == nil {
			continue
		}
		arg.Route, arg.UserIds, arg.Keys = k.Route, append(arg.UserIds, k.UserID), append(arg.Keys, k.Key)
		arg.Fingerprints, arg.Made = append(arg.Fingerprints, k.Fingerprint[:]), append(arg.Made, made[i])
	}
	if len(arg.Keys) == 0 {
		return nil
	}
	return q.SaveAnswers(ctx, arg)
}

func saveAnswer(ctx context.Context, q *db.Queries, key *idempotency.Key, made string) error {
	return saveAnswers(ctx, q, []*idempotency.Key{key}, []string{made})
}

// Made implements reservation.Holder.
func (s *Store) Made(ctx context.Context, key *idempotency.Key) (*reservation.Reservation, error) {
	if key == nil {
		return nil, nil //nolint:nilnil // nothing was made
	}
	var r *reservation.Reservation
	err := postgres.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		made, err := claimKey(ctx, q, key)
		if err != nil || made == "" {
			return err
		}
		r, err = asMade(ctx, q, made)
		return err
	})
	return r, err
}

// asMade returns the reservation that an earlier request made, as it was then.
func asMade(ctx context.Context, q *db.Queries, made string) (*reservation.Reservation, error) {
	id, err := uuid.Parse(made)
	if err != nil {
		return nil, err
	}
	r, _, err := findReservation(ctx, q, id)
	if err != nil {
		return nil, err
	}
	return r.AsMade(), nil
}

// DeleteOldAnswers forgets up to max answers whose 24 hours are over, and returns how many.
func (s *Store) DeleteOldAnswers(ctx context.Context, max int) (int, error) {
	n, err := s.queries().DeleteOldAnswers(ctx, int32(max)) //nolint:gosec // a batch
	return int(n), postgres.Err(err)
}
