package purchases

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/purchase"
)

var (
	_ membership.Plans = (*Memberships)(nil)
	_ membership.Store = (*Memberships)(nil)
)

// Memberships stores plans and memberships. Reads for users use a separate pool of connections.
type Memberships struct{ database *postgres.Database }

// NewMemberships makes a Memberships on the database d.
func NewMemberships(d *postgres.Database) *Memberships { return &Memberships{database: d} }

func (s *Memberships) CreatePlan(ctx context.Context, p membership.Plan, key *idempotency.Key) (id string, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		earlierID, err := answers.Claim(ctx, tx, key)
		if id = earlierID; earlierID != "" || err != nil {
			return err
		}
		id = p.ID
		arg := db.InsertPlanParams{
			PlanID: p.ID, Name: p.Name, Price: p.Price, Currency: p.Currency, Months: int32(p.Months), Now: tx.AsOf, //nolint:gosec // at most 120
		}
		if err := tx.InsertPlan(ctx, arg); err != nil {
			return err
		}
		return answers.Keep(ctx, tx, key, id)
	})
	return id, err
}

func (s *Memberships) SetOnSale(ctx context.Context, id string, onSale bool) error {
	n, err := s.database.Queries().SetPlanOnSale(ctx, db.SetPlanOnSaleParams{PlanID: id, OnSale: onSale})
	if err == nil && n == 0 {
		return membership.ErrPlanNotFound
	}
	return pkgpostgres.Err(err)
}

// Plan uses the pool of writes, not that of reads, since it is called after a write.
func (s *Memberships) Plan(ctx context.Context, id string) (*membership.Plan, error) {
	return findPlan(ctx, s.database.Queries(), id)
}

func findPlan(ctx context.Context, q *postgres.Queries, id string) (*membership.Plan, error) {
	row, err := q.FindPlan(ctx, id)
	if err != nil {
		return nil, postgres.OrNotFound(err, membership.ErrPlanNotFound)
	}
	p := toPlan(row)
	return &p, nil
}

func (s *Memberships) ListOnSale(ctx context.Context, max int) ([]membership.Plan, error) {
	rows, err := s.database.ReadQueries().ListPlansOnSale(ctx, int32(max)) //nolint:gosec // a small number
	return toPlans(rows), pkgpostgres.Err(err)
}

func (s *Memberships) ListPlans(ctx context.Context, limit int, before uuid.UUID) ([]membership.Plan, error) {
	rows, err := s.database.ReadQueries().ListPlans(ctx, db.ListPlansParams{
		Before: postgres.OrMaxUUID(before).String(), Max: int32(limit), //nolint:gosec // at most 101
	})
	return toPlans(rows), pkgpostgres.Err(err)
}

func (s *Memberships) Buy(ctx context.Context, userID, planID string, contact purchase.Contact) (id uuid.UUID, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		plan, err := findPlan(ctx, tx.Queries, planID)
		if err == nil {
			id, err = buyMembership(ctx, tx, userID, plan, contact)
		}
		return err
	})
	return id, err
}

// buyMembership returns the user's pending purchase of a plan, or stores a new one. It takes the
// member's lock first, so that the user's memberships of the plan neither begin nor become more meanwhile.
func buyMembership(ctx context.Context, tx *postgres.Tx, userID string, plan *membership.Plan, contact purchase.Contact) (uuid.UUID, error) {
	if err := tx.LockMembers(ctx, []postgres.Member{{PlanID: plan.ID, UserID: userID}}); err != nil {
		return uuid.Nil, err
	}
	rows, err := postgres.LockPendingMembership.Take(ctx, tx, db.LockPendingMembershipParams{UserID: userID, PlanID: plan.ID})
	if err != nil {
		return uuid.Nil, err
	}
	_, now, err := postgres.Closings(ctx, tx.Queries, nil)
	if err != nil {
		return uuid.Nil, err
	}
	locked := lockedMembershipsOf(rows)
	for _, m := range locked.All() {
		if m.Expire(now); m.Status == membership.Pending {
			return m.ID, nil
		}
	}
	if err := locked.Save(ctx, tx); err != nil {
		return uuid.Nil, err
	}
	if !plan.OnSale {
		return uuid.Nil, membership.ErrPlanNotOnSale
	}
	owned, err := tx.PaidMemberships(ctx, db.PaidMembershipsParams{UserID: userID, PlanID: plan.ID})
	if err != nil {
		return uuid.Nil, err
	}
	if err := membership.CheckAhead(plan.Price, lockedMembershipsOf(owned).All(), now); err != nil {
		return uuid.Nil, err
	}
	m := membership.New(userID, plan, now)
	return m.ID, tx.InsertMembership(ctx, db.InsertMembershipParams{
		MembershipID: m.ID, UserID: m.UserID, PlanID: m.PlanID, Price: m.Price, Currency: m.Currency, Months: int32(m.Months), //nolint:gosec // at most 120
		Email: contact.Email, Language: contact.Language, PayUntil: m.Until, CreatedAt: m.CreatedAt,
	})
}

// Find uses the pool of writes, not that of reads, since it is called after a write.
func (s *Memberships) Find(ctx context.Context, id uuid.UUID) (*membership.View, error) {
	q := s.database.Queries()
	row, err := q.FindMembership(ctx, db.FindMembershipParams{MembershipID: id, Now: q.AsOf})
	if err != nil {
		return nil, postgres.OrNotFound(err, membership.ErrNotFound)
	}
	m := toShownMembership(db.ListMembershipsRow(row))
	return &m, nil
}

func (s *Memberships) List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]membership.View, error) {
	q := s.database.ReadQueries()
	rows, err := q.ListMemberships(ctx, db.ListMembershipsParams{
		Now: q.AsOf, UserID: userID, Before: postgres.OrMaxUUID(before), Max: int32(limit), //nolint:gosec // at most 101
	})
	list := make([]membership.View, len(rows))
	for i, r := range rows {
		list[i] = toShownMembership(r)
	}
	return list, pkgpostgres.Err(err)
}

func (s *Memberships) Change(ctx context.Context, id uuid.UUID, decide membership.Decide) error {
	return s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		locked, err := LockMemberships(ctx, tx, id)
		if err != nil {
			return err
		}
		m := locked.Find(id)
		if m == nil {
			return membership.ErrNotFound
		}
		_, now, err := postgres.Closings(ctx, tx.Queries, nil)
		if err != nil {
			return err
		}
		if err := decide(m, now); err != nil {
			return err
		}
		return locked.Save(ctx, tx)
	})
}

func (s *Memberships) FindToPay(ctx context.Context, id uuid.UUID) (*membership.Purchase, time.Time, error) {
	m, err := s.Find(ctx, id)
	if err != nil {
		return nil, time.Time{}, asReference(err, membership.ErrNotFound)
	}
	return &membership.Purchase{Membership: &m.Membership, Name: m.Name}, m.Now, nil
}

func (s *Memberships) ChangeToBegin(ctx context.Context, id uuid.UUID, change func(p *membership.Purchase, now time.Time) error) error {
	err := s.Change(ctx, id, func(m *membership.Membership, now time.Time) error {
		return change(&membership.Purchase{Membership: m}, now)
	})
	return asReference(err, membership.ErrNotFound)
}

func (s *Memberships) ChangeClaims(
	ctx context.Context, payments []purchase.UnderWay, change func(p *membership.Purchase, payment uuid.UUID, now time.Time),
) error {
	return changeEach(ctx, s, payments, change)
}

func (s *Memberships) Paying(ctx context.Context, payments []purchase.UnderWay, left time.Duration) (all, short []purchase.UnderWay, err error) {
	q := s.database.Queries()
	return paying(ctx, q, payments, left, func(ctx context.Context, arg db.PayingReservationsParams) ([]db.PayingMembershipsRow, error) {
		return q.PayingMemberships(ctx, db.PayingMembershipsParams(arg))
	})
}

func (s *Memberships) Due(ctx context.Context, max int) ([]uuid.UUID, error) {
	q := s.database.Queries()
	ids, err := q.DueMemberships(ctx, db.DueMembershipsParams{Now: q.AsOf, Max: int32(max)}) //nolint:gosec // a batch
	return ids, pkgpostgres.Err(err)
}

// Count counts the purchases that are not paid yet.
func (s *Memberships) Count(ctx context.Context) (membership.Counts, error) {
	q := s.database.Queries()
	row, err := q.CountPurchases(ctx, q.AsOf)
	return membership.Counts{Pending: row.Pending, Overdue: row.Overdue}, pkgpostgres.Err(err)
}

func (s *Memberships) Holders(ctx context.Context, planID string, boughtBefore *time.Time, userIDs []string) ([]string, error) {
	q := s.database.ReadQueries()
	ids, err := q.MembershipHolders(ctx, db.MembershipHoldersParams{UserIds: userIDs, Now: q.AsOf, PlanID: planID, Before: boughtBefore})
	return ids, pkgpostgres.Err(err)
}

func toPlan(r db.MembershipPlan) membership.Plan {
	return membership.Plan{
		ID: r.PlanID, Name: r.Name, Price: r.Price, Currency: r.Currency, Months: int(r.Months), OnSale: r.OnSale, CreatedAt: r.CreatedAt.UTC(),
	}
}

func toPlans(rows []db.MembershipPlan) []membership.Plan {
	list := make([]membership.Plan, len(rows))
	for i, r := range rows {
		list[i] = toPlan(r)
	}
	return list
}

func toMembership(r db.Membership) membership.Membership {
	return membership.Membership{
		ID: r.MembershipID, UserID: r.UserID, PlanID: r.PlanID, Price: r.Price, Currency: r.Currency, Months: int(r.Months),
		Status:      membership.Status(r.Status),
		ActivatedAt: postgres.TimeOrZero(r.ActivatedAt), StartsAt: postgres.TimeOrZero(r.StartsAt), EndsAt: postgres.TimeOrZero(r.EndsAt),
		GivenBack: r.Given, RefundID: r.RefundID.UUID, Version: r.Version, CreatedAt: r.CreatedAt.UTC(), Claim: purchase.Claim{
			PaymentID: r.PaymentID.UUID, Until: r.PayUntil.UTC(), OriginalEnd: r.PayEndsAt.UTC(), Opens: int(r.Opens), Begun: r.Begun,
		},
	}
}

func toShownMembership(r db.ListMembershipsRow) membership.View {
	return membership.View{Membership: toMembership(r.Membership), Name: r.Name, Now: r.Now.UTC()}
}
