package promotion

// Lock makes sure that a user has only one valid request to a promotion: it contains that request's
// id. When the user withdraws the request, the lock stays and counts the withdrawal.
type Lock struct {
	EventID, UserID string
	RequestID       string
	// KeyHash is the hash of the request's Idempotency-Key; empty without one.
	KeyHash string
	// Withdrawn means that this request was withdrawn, so the user has no request that counts.
	Withdrawn bool
	// Withdrawals is how many times the user has withdrawn a request to the promotion.
	Withdrawals int64
	// CreatedAt is when the request was accepted, or withdrawn.
	CreatedAt int64
	EndsAt    int64
}
