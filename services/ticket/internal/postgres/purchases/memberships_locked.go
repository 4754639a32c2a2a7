package purchases

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

// LockedMemberships has memberships whose rows one transaction has locked.
type LockedMemberships struct{ locked[membership.Membership] }

// LockMemberships locks and reads memberships for changes that do not move their periods. Missing memberships
// are left out.
func LockMemberships(ctx context.Context, tx *postgres.Tx, ids ...uuid.UUID) (*LockedMemberships, error) {
	rows, err := postgres.LockMemberships.Take(ctx, tx, ids)
	return lockedMembershipsOf(rows), err
}

// LockMembershipsOfPayment locks and reads the memberships of a payment. The payment must be locked.
func LockMembershipsOfPayment(ctx context.Context, tx *postgres.Tx, payment uuid.UUID) (*LockedMemberships, error) {
	rows, err := postgres.LockMembershipsOfPayment.Take(ctx, tx, payment)
	return lockedMembershipsOf(rows), err
}

// LockMembershipsWithOthers locks and reads memberships, and the paid ones of the same users in the same
// plans, whose periods must not overlap. It takes the members' advisory locks first, so that the
// second of two transactions reads what the first has written.
func LockMembershipsWithOthers(ctx context.Context, tx *postgres.Tx, ids []uuid.UUID) (*LockedMemberships, error) {
	if len(ids) == 0 {
		return &LockedMemberships{}, nil
	}
	keys, err := tx.MembershipKeys(ctx, ids)
	if err != nil {
		return nil, err
	}
	members := make([]postgres.Member, len(keys))
	arg := db.LockMembershipsWithOthersParams{MembershipIds: ids}
	for i, k := range keys {
		members[i] = postgres.Member{PlanID: k.PlanID, UserID: k.UserID}
		arg.UserIds, arg.PlanIds = append(arg.UserIds, k.UserID), append(arg.PlanIds, k.PlanID)
	}
	if err := tx.LockMembers(ctx, members); err != nil {
		return nil, err
	}
	rows, err := postgres.LockMembershipsWithOthers.Take(ctx, tx, arg)
	return lockedMembershipsOf(rows), err
}

func lockedMembershipsOf(rows []db.Membership) *LockedMemberships {
	return &LockedMemberships{lockedOf(rows, toMembership, func(m *membership.Membership) uuid.UUID { return m.ID })}
}

// Purchase returns the membership with this id and the other locked memberships of the same user in
// the same plan, or nil if it is not locked.
func (l *LockedMemberships) Purchase(id uuid.UUID) *membership.Purchase {
	m := l.Find(id)
	if m == nil {
		return nil
	}
	p := &membership.Purchase{Membership: m}
	for _, c := range l.locked {
		if o := c.current; o != m && o.UserID == m.UserID && o.PlanID == m.PlanID {
			p.Others = append(p.Others, o)
		}
	}
	return p
}

// Save writes the changed memberships and the Kafka events about them.
func (l *LockedMemberships) Save(ctx context.Context, tx *postgres.Tx) error {
	var published []membership.Event
	var arg db.UpdateMembershipsParams
	for _, c := range l.locked {
		m := c.current
		if m.Version == c.before.Version {
			continue
		}
		published = append(published, m.TakeEvents()...)
		arg.MembershipIds, arg.Was, arg.Versions = append(arg.MembershipIds, m.ID), append(arg.Was, c.before.Version), append(arg.Versions, m.Version)
		arg.Statuses, arg.PayUntils = append(arg.Statuses, string(m.Status)), append(arg.PayUntils, m.Until)
		arg.PaymentIds, arg.Opens = append(arg.PaymentIds, m.PaymentID), append(arg.Opens, int32(m.Opens)) //nolint:gosec // a small number
		arg.Activated, arg.Starts = append(arg.Activated, postgres.OrEpoch(m.ActivatedAt)), append(arg.Starts, postgres.OrEpoch(m.StartsAt))
		arg.Ends, arg.Given = append(arg.Ends, postgres.OrEpoch(m.EndsAt)), append(arg.Given, m.GivenBack)
		arg.RefundIds, arg.Begun = append(arg.RefundIds, m.RefundID), append(arg.Begun, postgres.UUIDArray(m.Begun))
	}
	if len(arg.MembershipIds) > 0 {
		n, err := tx.UpdateMemberships(ctx, arg)
		if err := postgres.ExpectRows(n, len(arg.MembershipIds), "memberships", err); err != nil {
			return err
		}
	}
	return insertEvents(ctx, tx, published, membershipRecord)
}

func membershipRecord(e *membership.Event) outbox.Event {
	return outbox.Event{
		Topic: events.Memberships, Key: e.Membership.ID.String(), Type: string(e.Type), EntityVersion: e.Membership.Version,
		Payload: membershipPayload(e),
	}
}

func membershipPayload(e *membership.Event) *eventsv1.MembershipEvent {
	m := &e.Membership
	p := &eventsv1.MembershipEvent{
		Type: string(e.Type), MembershipId: m.ID.String(), PlanId: m.PlanID, UserId: m.UserID, Price: m.Price, Currency: m.Currency,
		PaymentId: e.PaymentID.String(), Version: m.Version, OccurredAt: timestamppb.New(e.At),
	}
	if e.Reason != "" {
		p.Reason = proto.String(e.Reason)
	}
	if e.Type == membership.EventActivated {
		p.StartsAt, p.EndsAt = timestamppb.New(m.StartsAt), timestamppb.New(m.EndsAt)
	}
	return p
}
