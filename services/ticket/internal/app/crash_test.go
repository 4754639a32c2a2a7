//go:build failpoint

package app_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/postgres"
)

// newReadyService returns a service whose database is migrated and whose topics exist.
func newReadyService(t *testing.T) *service {
	t.Helper()
	s := newService(t, postgres.Migrations...)
	s.ensureTopic("reservation-events")
	return s
}

// waitForCrash waits until the process has died at its failpoint.
func (s *service) waitForCrash(p *processtest.Process) {
	s.t.Helper()
	require.ErrorContains(s.t, p.Wait(), "killed")
	s.leaveGroup()
}

// leaveGroup removes the consumer of a killed process from its group. The broker would do so too,
// but only when the consumer's session of 10 s ends.
func (s *service) leaveGroup() {
	s.t.Helper()
	client, name := s.client(), s.kafka.GroupPrefix+group
	groups, err := kadm.NewClient(client).DescribeGroups(s.t.Context(), name)
	require.NoError(s.t, err)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = name
	for _, m := range groups[name].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	_, err = req.RequestWith(s.t.Context(), client)
	require.NoError(s.t, err)
}

func (s *service) client() *kgo.Client {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Brokers...))
	require.NoError(s.t, err)
	s.t.Cleanup(client.Close)
	return client
}

// A client whose answer was lost in the crash repeats its request and gets the hold that was made.
func TestCrashAfterAHold(t *testing.T) {
	t.Parallel()
	general := int64(10)
	for name, c := range map[string]struct {
		seating string
		section *ticketv1.SectionSpec
		hold    func(s *service) (*ticketv1.Reservation, error)
	}{
		"named seats": {"ASSIGNED", rows("A", 1, 10), func(s *service) (*ticketv1.Reservation, error) {
			return s.hold("ann", "A-1-1")
		}},
		"general admission": {"GENERAL", &ticketv1.SectionSpec{Section: "A", Price: 5, Capacity: &general}, func(s *service) (*ticketv1.Reservation, error) {
			return onlyResult(s.HoldBest(s.t.Context(), &ticketv1.HoldBestRequest{
				Items: []*ticketv1.HoldBestItem{{Caller: s.callerWithSlot("ann"), EventId: s.event, Section: "A", Quantity: 2}},
			}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReadyService(t)
			p := s.start("ticket.hold.after_commit@1=exit")
			s.putSale(c.seating, c.section)
			_, err := c.hold(s)
			require.Error(t, err)
			s.waitForCrash(p)
			require.Equal(t, 1, s.count(`SELECT count(*) FROM reservations`))

			s.start("")
			r, err := c.hold(s)
			require.NoError(t, err)
			require.Equal(t, 1, s.count(`SELECT count(*) FROM reservations WHERE reservation_id = $1`, r.GetReservationId()))
			require.Equal(t, 1, s.count(`SELECT count(*) FROM reservations`))
			require.Equal(t, []string{"RESERVATION_CREATED"}, s.published(r))
		})
	}
}

// Wherever the process dies, a payment makes its tickets and publishes its event exactly once.
func TestCrashWhileConfirming(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"ticket.confirm.before_commit", "ticket.confirm.after_commit", "outbox.before_publish", "outbox.after_publish",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newReadyService(t)
			p := s.start("")
			s.putSale("ASSIGNED", rows("A", 1, 10))
			r := s.mustHold("ann", "A-1-1", "A-1-2")
			require.Equal(t, []string{"RESERVATION_CREATED"}, s.published(r))
			p.Stop()

			p = s.start(point + "@1=exit")
			s.pay(r, uuid.NewString())
			s.waitForCrash(p)
			s.start("")
			s.waitForStatus(r, "CONFIRMED")
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED"}, s.published(r))
			require.Equal(t, 2, s.count(`SELECT count(*) FROM tickets WHERE status = 'VALID'`))
			require.Equal(t, 2, s.count(`SELECT count(*) FROM seats WHERE status = 'SOLD'`))
			require.Len(t, s.ticketsOf("ann"), 2)
		})
	}
}

// Wherever the process dies, a refund ends its tickets and gives their places back exactly once.
func TestCrashWhileRefunding(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"ticket.claim.before_commit", "ticket.claim.after_commit", "ticket.confirm.before_commit", "ticket.confirm.after_commit",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newReadyService(t)
			p := s.start("")
			s.putSale("ASSIGNED", rows("A", 1, 10))
			r := s.mustHold("ann", "A-1-1", "A-1-2")
			payment, refund := uuid.NewString(), uuid.NewString()
			s.pay(r, payment)
			s.waitForStatus(r, "CONFIRMED")
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED"}, s.published(r))
			p.Stop()

			p = s.start(point + "@1=exit")
			if _, err := s.claimRefund(r, refund, payment); err == nil {
				s.refund(r, refund, payment, "USER")
			}
			s.waitForCrash(p)
			s.start("")
			s.mustClaimRefund(r, refund, payment)
			s.refund(r, refund, payment, "USER")
			s.waitForStatus(r, "REFUNDED")
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED", "RESERVATION_CANCELLED"}, s.published(r))
			require.Equal(t, 1, s.count(`SELECT count(*) FROM refund_claims WHERE status = 'DONE'`))
			require.Equal(t, int(r.GetAmount()), s.count(`SELECT sum(given) FROM tickets WHERE status = 'REFUNDED'`))
			require.Equal(t, 10, s.count(`SELECT count(*) FROM seats WHERE status = 'FREE'`))
		})
	}
}

// Wherever the process dies, the tickets of an aborted refund are valid again, and another refund
// can claim them.
func TestCrashWhileAborting(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"ticket.abort.before_commit", "ticket.abort.after_commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newReadyService(t)
			p := s.start(point + "@1=exit")
			s.putSale("ASSIGNED", rows("A", 1, 10))
			r := s.mustHold("ann", "A-1-1", "A-1-2")
			payment, refund := uuid.NewString(), uuid.NewString()
			s.pay(r, payment)
			s.waitForStatus(r, "CONFIRMED")
			s.mustClaimRefund(r, refund, payment)
			abort := func() error {
				_, err := s.payables.AbortRefund(t.Context(), &ticketv1.AbortRefundRequest{RefundId: refund})
				return err
			}
			require.Error(t, abort())
			s.waitForCrash(p)
			s.start("")
			s.callUntilAnswered(abort)
			require.Equal(t, 2, s.count(`SELECT count(*) FROM tickets WHERE status = 'VALID' AND given = 0`))
			require.Equal(t, 1, s.count(`SELECT count(*) FROM refund_claims WHERE status = 'ABORTED'`))
			s.mustClaimRefund(r, uuid.NewString(), payment)
		})
	}
}

// Wherever the process dies, the refund of an order of a cancelled event is requested exactly once.
func TestCrashWhileEndingAnEvent(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"ticket.walk.before_commit", "ticket.walk.after_commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newReadyService(t)
			p := s.start(point + "@1=exit")
			s.putSale("ASSIGNED", rows("A", 1, 10))
			r := s.mustHold("ann", "A-1-1", "A-1-2")
			s.pay(r, uuid.NewString())
			s.waitForStatus(r, "CONFIRMED")
			// The process may die before it answers.
			_, _ = s.CancelEvent(t.Context(), &ticketv1.CancelEventRequest{
				Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, EventId: s.event, GraceSeconds: new(int32(0)),
			})
			s.waitForCrash(p)
			s.start("")
			testkit.Until(t, func() bool { return s.count(`SELECT count(*) FROM tickets WHERE status = 'REFUNDING'`) == 2 }, "all is owed")
			require.Equal(t, 1, s.count(`SELECT count(*) FROM refund_claims WHERE status = 'BEGUN'`))
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED", "TICKETS_REFUND_DUE"}, s.published(r))
		})
	}
}
