package table

import (
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

func lockPK(event, user string) string { return "IDEMP#" + event + "#" + user }

// LockKey is the key of a user's lock for a promotion.
func LockKey(event, user string) dynamo.Item { return Key(lockPK(event, user), "LOCK") }

// LockItem encodes a lock.
func LockItem(l *promotion.Lock) dynamo.Item {
	b := newItem(lockPK(l.EventID, l.UserID), "LOCK", "IDEMPOTENCY")
	b.setString("requestId", l.RequestID)
	b.setString("keyHash", l.KeyHash)
	b.setIfTrue("withdrawn", l.Withdrawn)
	b.setNonZero(lockWithdrawals, l.Withdrawals)
	b.setNonZero("createdAt", l.CreatedAt)
	b.setNonZero(TTL, expirySeconds(l.EndsAt, promotion.LockDays))
	return dynamo.Item(b)
}

// DecodeLock reads a lock, without its event, user and expiry.
func DecodeLock(it dynamo.Item) (promotion.Lock, error) {
	d := dynamo.Reader{Item: it}
	return promotion.Lock{
		RequestID: d.String("requestId"), KeyHash: d.String("keyHash"), Withdrawn: d.Bool("withdrawn"),
		Withdrawals: d.Number(lockWithdrawals), CreatedAt: d.Number("createdAt"),
	}, d.Err()
}

// lockWithdrawals is the attribute with the number of withdrawals, which conditions refer to.
const lockWithdrawals = "withdrawals"

// LockUnchanged is the condition that a stored lock has not changed since l was read: it has the id
// of the same request, and the user has not withdrawn since.
func LockUnchanged(l *promotion.Lock) Condition {
	c := LockNamesRequest(l.RequestID)
	if l.Withdrawals == 0 {
		c.Expression += " AND attribute_not_exists(" + lockWithdrawals + ")"
	} else {
		c.Expression += " AND " + lockWithdrawals + " = :withdrawals"
		c.Values[":withdrawals"] = dynamo.Number(l.Withdrawals)
	}
	return c
}

// lockUpdate makes the update that sets the attributes of a lock. It keeps the stored hash of the
// Idempotency-Key and the stored number of withdrawals.
func lockUpdate(l *promotion.Lock) dynamo.Change {
	it := LockItem(l)
	delete(it, PK)
	delete(it, SK)
	return dynamo.Diff(nil, it)
}

// Withdraw records in the user's lock that the request was withdrawn. The lock keeps the id of this
// request, so that no earlier request can be redriven.
func (t *Tx) Withdraw(owner int, r *promotion.Request) {
	lock := promotion.Lock{EventID: r.EventID, UserID: r.UserID, RequestID: r.RequestID, Withdrawn: true, CreatedAt: t.now, EndsAt: r.EndsAt}
	u := lockUpdate(&lock)
	u.Expression += " ADD " + lockWithdrawals + " :one"
	u.Values[":one"] = dynamo.Number(1)
	t.Update(owner, LockKey(r.EventID, r.UserID), u, lockAbsentOrNames(r.RequestID))
}

// lockAbsentOrNames is the condition that there is no lock, or that it has the id of this request.
func lockAbsentOrNames(requestID string) Condition {
	c := LockNamesRequest(requestID)
	c.Expression = "attribute_not_exists(" + PK + ") OR " + c.Expression
	return c
}
