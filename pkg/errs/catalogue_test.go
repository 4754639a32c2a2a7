package errs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

func TestCatalogueIsWellFormed(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	statuses := map[int]bool{400: true, 401: true, 403: true, 404: true, 409: true, 412: true, 422: true, 429: true, 499: true, 500: true, 503: true, 504: true}
	seen := make(map[string]bool)
	for _, e := range errs.Catalogue() {
		require.Regexp(t, code, e.Reason)
		require.False(t, seen[e.Reason], "%s is there twice", e.Reason)
		seen[e.Reason] = true
		require.NotEmpty(t, e.Message)
		require.False(t, strings.HasSuffix(e.Message, "."), "%s: a sentence of the catalogue has no full stop", e.Reason)
		require.True(t, statuses[e.Kind.HTTPStatus()], e.Reason)
		found, ok := errs.Lookup(e.Reason)
		require.True(t, ok)
		require.Same(t, e, found)
	}
	_, ok := errs.Lookup("NO_SUCH_CODE")
	require.False(t, ok)
}

// Clients depend on the exact text of these codes and on their status, so neither may change.
func TestContractualCodes(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		"VWR_INACTIVE": 404, "LOBBY_OPEN": 409, "ASK_LATER": 429, "VWR_TOKEN_REQUIRED": 403, "PROOF_REQUIRED": 403, "PASS_USED": 409, "QUEUE_TOKEN_REQUIRED": 403, "ORIGIN_REQUIRED": 403,
		"SEAT_TAKEN": 409, "LIMIT_EXCEEDED": 409, "SALE_NOT_OPEN": 409, "SOLD_OUT": 409, "TRY_AGAIN": 409, "SEATS_NOT_ADJACENT": 409,
		"AMOUNT_MISMATCH": 409, "HOLD_EXPIRED": 409, "IDEMPOTENCY_KEY_REUSED": 422, "IDEMPOTENCY_IN_PROGRESS": 409,
		"UNKNOWN_FIELD": 400, "BODY_TOO_LARGE": 400, "INVALID_UTF8": 400, "INVALID_ID": 400, "RATE_LIMITED": 429, "UNAVAILABLE": 503,
	} {
		e, ok := errs.Lookup(code)
		require.True(t, ok, code)
		require.Equal(t, status, e.Kind.HTTPStatus(), code)
	}
	require.Equal(t, "Queue entry token required", errs.ErrQueueTokenRequired.Message)
}

func TestServerErrorsAreNotClientErrors(t *testing.T) {
	t.Parallel()
	for _, k := range []errs.Kind{errs.Internal, errs.Unavailable, errs.Deadline} {
		require.False(t, k.CausedByClient(), k)
		require.GreaterOrEqual(t, k.HTTPStatus(), 500, k)
	}
	require.True(t, errs.Exhausted.CausedByClient())
	require.Equal(t, 500, errs.Kind("nonsense").HTTPStatus())
}
