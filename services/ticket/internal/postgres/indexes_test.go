package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/ticket/internal/postgres"
)

// Every statement searches an index, except those listed: ListEvents reads a page in index order;
// PlacesByEvent scans all events, but only every ten seconds; there are few webhooks; the indexes
// notices_to_walk and events_codes_to_send contain only rows that await work; payment_limits has one row.
func TestEveryStatementHasItsIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, postgres.Migrations, postgrestest.GeneratedQueries(t), "ListEvents events", "PlacesByEvent events",
		"ListWebhooks webhooks", "QueueForWebhooks webhooks", "NoticesToWalk notices", "CodesDue events", "PaymentLimits payment_limits", "PutPaymentLimits payment_limits")
}

// Every replica repeats these reads. Their cost must not grow with the number of sold places, nor
// with the expired holds of other sales.
func TestFiguresOfSalesAreBounded(t *testing.T) {
	t.Parallel()
	plans := postgrestest.Plans(t, postgres.Migrations, postgrestest.GeneratedQueries(t))
	require.NotContains(t, plans["PlacesByEvent"], "reservations")
	require.NotContains(t, plans["SaleStandings"], "seats")
	for _, name := range []string{"TakenAdmissions", "DueInSections"} {
		require.Contains(t, plans[name], "reservations_unpaid_by_section", name)
	}
	// However many tickets an event has, a refund reads only those of its own payment.
	require.Contains(t, plans["TicketsOfPayment"], "tickets_by_payment")
	for name, index := range map[string]string{
		"LockTickets": "tickets_pkey", "ReservationsOf": "tickets_pkey", "UpdateTickets": "tickets_pkey", "LockClaims": "refund_claims_pkey",
		"EndPlaces": "places_pkey", "GiveSeatsBack": "places_pkey", "EndedPayments": "ended_payments_pkey",
		"FindAdmission": "scans_admitted_once", "TakeCode": "codes_pkey", "HasUsedCode": "used_codes_pkey", "LockListToDrop": "entitlement_lists_to_drop", "FindScans": "scans_pkey", "UndoScan": "scans_pkey", "ListConflicts": "scans_conflicts",
		"Door": "tickets_transferring", "DoorTickets": "tickets_by_event",
		"OrdersOfEvent": "reservations_paid_by_event", "OrdersOfSeat": "places_one_live", "ScansOfTickets": "scans_by_ticket",
		"MembershipHolders": "memberships_held", "LockMembershipsOfPayment": "memberships_by_payment", "DueMemberships": "memberships_due",
		"CountPurchases": "memberships_due", "ListMemberships": "memberships_by_user", "LockPendingMembership": "memberships_one_pending",
		"PaidMemberships": "memberships_held", "LockMembershipsWithOthers": "memberships_held",
		"ClaimDeliveries": "deliveries_in_order", "WakeNext": "deliveries_in_order", "NoticesToWalk": "notices_to_walk",
		"FindOrders": "reservations_pkey", "TicketsOfOrder": "tickets_ended_by_order", "HoldersOfOrders": "tickets_ended_by_order",
	} {
		require.Contains(t, plans[name], index, name)
	}
	for _, index := range []string{"entitlement_entries_pkey", "used_codes_pkey", "entitlement_lists_current"} {
		require.Contains(t, plans["EntitledUsers"], index)
	}
	// Listing a page of orders reads only the rows of this page, in index order.
	for _, name := range []string{"OrdersOfEvent", "FindOrders"} {
		require.NotContains(t, plans[name], "Seq Scan", name)
	}
	require.NotContains(t, plans["OrdersOfEvent"], "Sort")
	for _, index := range []string{"reservations_by_user", "tickets_by_user"} {
		require.Contains(t, plans["OrdersOfUser"], index)
	}
	require.Contains(t, plans["OrdersOfSeat"], "tickets_ended_by_seat")
	require.Contains(t, plans["TicketsOfOrder"], "tickets_one_live")
	require.Contains(t, plans["ClaimDeliveries"], "deliveries_due")
	// Listing a page of a door's tickets reads only these tickets. Counting check-ins reads none.
	require.NotContains(t, plans["DoorTickets"], "Sort")
	for _, index := range []string{"scans_admitted_once", "scans_conflicts", "sections_pkey"} {
		require.Contains(t, plans["DoorCounts"], index)
	}
}
