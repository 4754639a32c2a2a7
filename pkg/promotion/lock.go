package promotion

// Lock makes sure that a user has one request to a promotion: it names the request that counts. It
// stays when the user withdraws, with the number of withdrawals.
type Lock struct {
	EventID, UserID string
	RequestID       string
	// KeyHash is the hash of the request's Idempotency-Key; empty without one.
	KeyHash string
	// Withdrawn: the named request was withdrawn, so that none counts.
	Withdrawn bool
	// Withdrawals is how often the user has withdrawn a request to the event.
	Withdrawals int64
	CreatedAt   int64
	EndsAt      int64
}
