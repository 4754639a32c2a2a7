package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/services/ticket/internal/postgres/db"
)

// User identifies a user of one event or, unless SeriesID is empty, of all events of this series.
type User struct{ EventID, SeriesID, UserID string }

// LockKey returns the key of the advisory lock that must be held to count or change the user's
// places.
func (u User) LockKey() int64 {
	if u.SeriesID != "" {
		return lockKey("series", u.SeriesID, u.UserID)
	}
	return lockKey("user", u.EventID, u.UserID)
}

// Member identifies a user who has memberships in a plan.
type Member struct{ PlanID, UserID string }

func (m Member) lockKey() int64 { return lockKey("member", m.PlanID, m.UserID) }

func paymentLockKey(id uuid.UUID) int64 { return lockKey("payment", id.String()) }

func lockKey(parts ...string) int64 {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// lockKeys returns the keys of a list in the order in which all transactions take them.
func lockKeys[T any](list []T, key func(T) int64) []int64 {
	keys := make([]int64, len(list))
	for i, v := range list {
		keys[i] = key(v)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// LockPayments takes the advisory locks of payments. They make a payment's confirmation and its
// refund by hand wait for each other, as neither may have a row yet that the other could lock.
func (tx *Tx) LockPayments(ctx context.Context, ids []uuid.UUID) error {
	return tx.LockPaymentsAndUsers(ctx, ids, nil)
}

// LockPaymentsAndUsers takes the advisory locks of payments and then those of users, in one statement.
func (tx *Tx) LockPaymentsAndUsers(ctx context.Context, ids []uuid.UUID, list []User) error {
	if len(ids) > 0 {
		if err := tx.advance(payments); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		if err := tx.advance(users); err != nil {
			return err
		}
	}
	return tx.LockUsers(ctx, append(lockKeys(ids, paymentLockKey), lockKeys(list, User.LockKey)...))
}

// LockMembers takes the advisory locks of members. Only one transaction at a time changes the periods
// of a user's memberships in a plan.
func (tx *Tx) LockMembers(ctx context.Context, list []Member) error {
	if err := tx.advance(members); err != nil {
		return err
	}
	return tx.LockUsers(ctx, lockKeys(list, Member.lockKey))
}

// QueueUsers queues the statement that takes the advisory locks of users.
func (tx *Tx) QueueUsers(b *pgx.Batch, list []User) error {
	b.Queue(db.LockUsers, lockKeys(list, User.LockKey))
	return tx.advance(users)
}

// QueueFreeUsers is QueueUsers without waiting. busy is called for each user whose lock another
// transaction has.
func (tx *Tx) QueueFreeUsers(b *pgx.Batch, list []User, busy func(User)) error {
	byKey := make(map[int64]User, len(list))
	for _, u := range list {
		byKey[u.LockKey()] = u
	}
	b.Queue(db.TryLockUsers, lockKeys(list, User.LockKey)).Query(func(rows pgx.Rows) error {
		var r db.TryLockUsersRow
		_, err := pgx.ForEachRow(rows, []any{&r.Key, &r.Locked}, func() error {
			if !r.Locked {
				busy(byKey[r.Key])
			}
			return nil
		})
		return err
	})
	return tx.advance(users)
}

// QueueSections queues LockSections. read is called for each of the event's sections with these names.
func (tx *Tx) QueueSections(b *pgx.Batch, eventID string, names []string, read func(db.LockSectionsRow)) error {
	b.Queue(db.LockSections, eventID, names).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.LockSectionsRow])
		for _, r := range all {
			read(r)
		}
		return err
	})
	return tx.advance(sections)
}
