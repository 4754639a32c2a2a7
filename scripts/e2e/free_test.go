package e2e_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// TestNothingForNothing asks for seats, a membership and an offered ticket, and names as their
// provider the one of free payments, or one that does not exist. Nothing is prepared.
func TestNothingForNothing(t *testing.T) {
	t.Parallel()
	p := harness.Shared(t)
	event := newSale(t, p)
	seller := newBuyer(t, p, event)
	seller.buySeats(p, "A-1-1")
	offered := seller.offer(seller.shownTickets()[0].TicketID, 40000)
	thief := newBuyer(t, p, event)
	plan := createPlan(t, p, 9900)

	thief.accept(offered.Claim)
	for kind, id := range map[string]string{
		"reservation": thief.hold("A-2-1").ReservationID,
		"membership":  thief.buyMembership(plan).MembershipID,
		"transfer":    offered.TransferID,
	} {
		for provider, refusal := range map[string]struct {
			status int
			code   string
		}{
			"none": {http.StatusBadRequest, "INVALID_REQUEST"},
			"None": {http.StatusNotFound, "PROVIDER_UNKNOWN"},
			"bank": {http.StatusNotFound, "PROVIDER_UNKNOWN"},
		} {
			body := map[string]any{"paymentType": kind, "referenceId": id, "provider": provider}
			requireRefused(t, thief.With("Idempotency-Key", uuid.NewString()), "/api/v1/payments/prepare", body, refusal.status, refusal.code)
		}
	}
	var payments int
	require.NoError(t, p.DB("payment").QueryRow(t.Context(), `SELECT count(*) FROM payments WHERE user_id = $1`, thief.user).Scan(&payments))
	require.Zero(t, payments)
	endSale(t, p, plan)
}
