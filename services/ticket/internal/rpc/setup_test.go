package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token/tokentest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/entitlements"
	"urr.guru/services/ticket/internal/postgres/events"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/postgres/orders"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/postgres/scans"
	"urr.guru/services/ticket/internal/postgres/voids"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/rpc"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

// opening is when the clock of every test starts; holds last for holdFor.
var opening = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

const holdFor = time.Minute

// client calls the whole service behind the production interceptors, on a database of its own.
type client struct {
	ticketv1.EventServiceClient
	ticketv1.EventAdminServiceClient
	ticketv1.HoldServiceClient
	ticketv1.ReservationServiceClient
	ticketv1.PayableServiceClient
	ticketv1.TicketServiceClient
	ticketv1.CheckInServiceClient
	ticketv1.OrderAdminServiceClient
	ticketv1.EntitlementServiceClient
	ticketv1.EntitlementAdminServiceClient
	ticketv1.MembershipServiceClient
	ticketv1.MembershipAdminServiceClient
	ticketv1.WebhookServiceClient

	clock      *testkit.Clock
	pool       *pgxpool.Pool
	settlement *purchases.Settlement
	keys       ticket.Keys
}

func serve(t *testing.T, opts ...rpctest.Option) *client {
	t.Helper()
	url := postgrestest.PatientURL(t, postgres.Migrations...)
	pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: url, MaxConns: 16}, t.Name(), pkgpostgres.Indexed())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	clock := testkit.NewClock(opening)
	database := postgres.New(pool, postgres.Options{
		// The test clock advances 1 µs per reading: snapshots are identified by their time.
		Now: func() time.Time { return clock.Advance(time.Microsecond) },
	})
	holder := holds.NewStore(database, 4, holdFor)
	t.Cleanup(func() { require.NoError(t, holder.Close(context.Background())) })
	eventStore := events.NewStore(database)
	eventService := event.NewService(eventStore, eventStore, eventStore)
	members := purchases.NewMemberships(database)
	membershipService := membership.NewService(members, members, 30*time.Minute)
	entitlementService := entitlement.NewService(eventService, members, entitlements.NewStore(database))
	reservationService := reservation.NewService(eventService, entitlementService, holder, purchases.NewReservations(database), 30*time.Minute)
	targets := purchase.Targets{purchase.Reservation: reservationService, purchase.Membership: membershipService}
	keys, err := ticket.ParseKeys(config.Secret(tokentest.Seed('k')))
	require.NoError(t, err)
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		ticketv1.RegisterEventServiceServer(r, rpc.NewEvents(eventService))
		ticketv1.RegisterEventAdminServiceServer(r, rpc.NewEventAdmin(eventService))
		ticketv1.RegisterEntitlementServiceServer(r, rpc.NewEntitlements(entitlementService))
		ticketv1.RegisterEntitlementAdminServiceServer(r, rpc.NewEntitlementAdmin(entitlementService))
		ticketv1.RegisterHoldServiceServer(r, rpc.NewHolds(reservationService))
		ticketv1.RegisterReservationServiceServer(r, rpc.NewReservations(reservationService))
		payables := rpc.NewPayables(targets, purchases.NewRefunds(database), membershipService, age(90*time.Second), eventStore, purchases.NewSettlement(database, 30*time.Minute), 30*time.Minute)
		ticketv1.RegisterPayableServiceServer(r, payables)
		ticketv1.RegisterMembershipServiceServer(r, rpc.NewMemberships(membershipService))
		ticketv1.RegisterMembershipAdminServiceServer(r, rpc.NewMembershipAdmin(membershipService))
		ticketv1.RegisterWebhookServiceServer(r, rpc.NewWebhooks(notice.NewWebhooks(notices.NewStore(database, false), false)))
		ticketService := ticket.NewService(purchases.NewTickets(database), keys)
		ticketv1.RegisterTicketServiceServer(r, rpc.NewTickets(ticketService))
		ticketv1.RegisterCheckInServiceServer(r, rpc.NewCheckIns(checkin.NewService(scans.NewStore(database), ticketService)))
		ticketv1.RegisterOrderAdminServiceServer(r, rpc.NewOrders(order.NewService(orders.NewStore(database), ticketService), voids.NewStore(database)))
	}, append(opts, rpctest.WithDial(pkgrpc.WithTimeout(time.Minute)))...) // for busy machines
	return &client{
		EventServiceClient: ticketv1.NewEventServiceClient(conn), EventAdminServiceClient: ticketv1.NewEventAdminServiceClient(conn),
		HoldServiceClient: ticketv1.NewHoldServiceClient(conn), ReservationServiceClient: ticketv1.NewReservationServiceClient(conn),
		PayableServiceClient: ticketv1.NewPayableServiceClient(conn), TicketServiceClient: ticketv1.NewTicketServiceClient(conn),
		CheckInServiceClient: ticketv1.NewCheckInServiceClient(conn), OrderAdminServiceClient: ticketv1.NewOrderAdminServiceClient(conn),
		EntitlementServiceClient: ticketv1.NewEntitlementServiceClient(conn), EntitlementAdminServiceClient: ticketv1.NewEntitlementAdminServiceClient(conn),
		MembershipServiceClient: ticketv1.NewMembershipServiceClient(conn), MembershipAdminServiceClient: ticketv1.NewMembershipAdminServiceClient(conn),
		WebhookServiceClient: ticketv1.NewWebhookServiceClient(conn),
		clock:                clock, pool: pool, settlement: purchases.NewSettlement(database, 30*time.Minute), keys: keys,
	}
}

func ptr[T any](v T) *T { return &v }

func admin() *commonv1.Caller { return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}} }

// inside returns a caller with a verified entry token of the event.
func inside(user, eventID string) *commonv1.Caller {
	return &commonv1.Caller{UserId: user, EventId: eventID, SlotId: "slot-" + user, Epoch: 7}
}

// signedIn returns a caller with a session only.
func signedIn(user string) *commonv1.Caller { return &commonv1.Caller{UserId: user} }

func putEvent(id, seating string, sections ...*ticketv1.SectionSpec) *ticketv1.PutEventRequest {
	return &ticketv1.PutEventRequest{
		Caller: admin(), EventId: id, Spec: &ticketv1.EventSpec{
			Title: "Concert", Artist: "Artist", Venue: "Hall", StartsAt: timestamppb.New(opening.Add(48 * time.Hour)),
			SalesOpenAt: timestamppb.New(opening.Add(-time.Hour)), SalesCloseAt: timestamppb.New(opening.Add(24 * time.Hour)), Seating: seating,
			Currency: "KRW", MaxPerUser: 4, Sections: sections,
		},
	}
}

func rows(name string, n, perRow int32) *ticketv1.SectionSpec {
	return &ticketv1.SectionSpec{Section: name, Price: 55000, Rows: &n, SeatsPerRow: &perRow}
}

func admissions(name string, capacity int64) *ticketv1.SectionSpec {
	return &ticketv1.SectionSpec{Section: name, Price: 33000, Capacity: &capacity}
}

func (c *client) put(t *testing.T, req *ticketv1.PutEventRequest) *ticketv1.Event {
	t.Helper()
	e, err := c.PutEvent(t.Context(), req)
	require.NoError(t, err)
	return e
}

// requireIn fails unless at is d from now, with a tolerance for readings of the test clock.
func (c *client) requireIn(t *testing.T, d time.Duration, at *timestamppb.Timestamp) {
	t.Helper()
	require.WithinDuration(t, c.clock.Now().Add(d), at.AsTime(), time.Millisecond)
}

// holdSeats holds seats of the event e.
func (c *client) holdSeats(t *testing.T, user string, seats ...string) *ticketv1.Reservation {
	t.Helper()
	res, err := c.HoldSeats(t.Context(), &ticketv1.HoldSeatsRequest{
		Items: []*ticketv1.HoldSeatsItem{{Caller: inside(user, "e"), EventId: "e", SeatIds: seats}},
	})
	require.NoError(t, err)
	require.Nil(t, res.GetResults()[0].GetProblem())
	return res.GetResults()[0].GetReservation()
}

// pay begins a payment of a reservation, and applies the event that it was confirmed.
func (c *client) pay(t *testing.T, r *ticketv1.Reservation, payment uuid.UUID) {
	t.Helper()
	_, err := c.BeginPayment(t.Context(), &ticketv1.BeginPaymentRequest{
		PaymentType: "reservation", ReferenceId: r.GetReservationId(), PaymentId: payment.String(), UserId: r.GetUserId(),
	})
	require.NoError(t, err)
	require.NoError(t, c.settlement.Settle(t.Context(), "group", []settlement.PaymentEvent{{
		Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: uuid.MustParse(r.GetReservationId()),
		Payment: purchase.Payment{ID: payment, UserID: r.GetUserId(), Amount: r.GetAmount(), Currency: "KRW"},
	}}))
}

// age is a fake Backlog: the age of the oldest payment event that is not applied.
type age time.Duration

func (a age) Age() (oldest, measuredAgo time.Duration, known bool) {
	return time.Duration(a), 3 * time.Second, a > 0
}

// requireReason checks the reason of an error, and the paths of the fields that it lists.
func requireReason(t *testing.T, err error, reason string, fields ...string) {
	t.Helper()
	require.Error(t, err)
	e := errs.From(err)
	require.Equal(t, reason, e.Reason, "%v", err)
	var got []string
	for _, f := range e.Fields {
		got = append(got, f.Path)
	}
	if len(fields) > 0 {
		require.Equal(t, fields, got)
	}
}
