package holds

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
)

// lockUsersAndRead locks the users and reads what the decision needs. The statements are sent in
// one round trip and run one after the other, so the reads see everything that was committed before
// the users were locked.
func (t *seatsTx) lockUsersAndRead(ctx context.Context, pending []int) error {
	users := distinctValues(pending, func(i int) string { return t.reqs[i].UserID })
	var b pgx.Batch
	if err := t.queueUsers(&b, users); err != nil {
		return err
	}
	t.queueSale(&b)
	t.queueRecords(&b, users)
	if seats := t.seatsOf(pending, func(n int) bool { return n <= smallRequest }); len(seats) > 0 {
		b.Queue(db.SeenSeats, t.AsOf, t.eventID, seats).Query(func(rows pgx.Rows) error {
			all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[db.SeenSeatsRow])
			t.addUnlocked(all)
			return err
		})
	}
	return t.SendBatch(ctx, &b).Close()
}

// queueUsers queues the locks of users. If the sale does not wait for busy ones, it marks them.
func (t *seatsTx) queueUsers(b *pgx.Batch, ids []string) error {
	if t.sale.Waits {
		return t.QueueUsers(b, t.users(ids))
	}
	return t.QueueFreeUsers(b, t.users(ids), func(u postgres.User) { t.sale.BusyUsers[u.UserID] = true })
}

// seatsOf returns the seats of the pending requests for which include(number of seats) is true.
func (t *seatsTx) seatsOf(pending []int, include func(n int) bool) (seats []string) {
	for _, i := range pending {
		if ids := t.reqs[i].SeatIDs; include(len(ids)) {
			seats = append(seats, ids...)
		}
	}
	return seats
}

func (t *seatsTx) addUnlocked(rows []db.SeenSeatsRow) {
	for _, r := range rows {
		t.sale.Unlocked[r.SeatID] = reservation.UnlockedSeat{Price: r.Price, Fee: r.Fee, Takeable: r.Takeable, HeldBy: r.HeldBy}
	}
}

// checkRequests refuses requests that cannot succeed before any seat is locked, and returns the
// other requests. It reads a large request's seats only if the user's limit allows so many.
func (t *seatsTx) checkRequests(ctx context.Context, pending []int) ([]int, error) {
	pending = t.refuse(pending, t.sale.CheckUser)
	if many := t.seatsOf(pending, func(n int) bool { return n > smallRequest }); len(many) > 0 {
		rows, err := t.SeenSeats(ctx, db.SeenSeatsParams{Now: t.AsOf, EventID: t.eventID, SeatIds: many})
		if err != nil {
			return nil, err
		}
		t.addUnlocked(rows)
	}
	return t.refuse(pending, t.sale.CheckSeats), nil
}

// refuse refuses the requests for which check returns an error, and returns the other requests.
func (t *seatsTx) refuse(pending []int, check func(reservation.SeatsRequest) error) (others []int) {
	for _, i := range pending {
		if t.results[i].Err = check(t.reqs[i]); t.results[i].Err == nil {
			others = append(others, i)
		}
	}
	return others
}

// findExpired finds the expired holds of the requested seats, with all of their seats. It refuses
// requests for those in scarce sections, before they lock anything, and returns the other requests:
// only the expiry of the hold, which lets its seats wait, may end it (see purchases.LockedReservations.Save).
func (t *seatsTx) findExpired(ctx context.Context, pending []int) ([]int, error) {
	requested := t.seatsOf(pending, func(int) bool { return true })
	var expired []uuid.UUID
	for _, id := range requested {
		if hold := t.sale.Unlocked[id].HeldBy; hold != uuid.Nil && !slices.Contains(expired, hold) {
			expired = append(expired, hold)
		}
	}
	if len(expired) == 0 {
		return pending, nil
	}
	rows, err := t.SeatsOf(ctx, expired)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		t.sale.Expired[r.ReservationID] = append(t.sale.Expired[r.ReservationID], r.SeatID)
	}
	if err := t.leaveScarce(ctx); err != nil {
		return nil, err
	}
	for _, id := range requested {
		seat := t.sale.Unlocked[id]
		seat.Takeable = seat.Takeable && (seat.HeldBy == uuid.Nil || t.sale.Expired[seat.HeldBy] != nil)
		t.sale.Unlocked[id] = seat
	}
	return t.refuse(pending, t.sale.CheckSeats), nil
}

// lockSeatsAndHolds locks the requested seats, and the expired holds that have one of them, with all
// of their other seats, which become free.
func (t *seatsTx) lockSeatsAndHolds(ctx context.Context, pending []int) error {
	if len(pending) == 0 {
		return nil
	}
	seats := t.seatsOf(pending, func(int) bool { return true })
	var expired []uuid.UUID
	for hold, ids := range t.sale.Expired {
		expired, seats = append(expired, hold), append(seats, ids...)
	}
	rows, err := t.lockSeats(ctx, seats, t.sale.Waits && !t.reqs[pending[0]].SkipLocked)
	if err != nil {
		return err
	}
	for _, r := range rows {
		t.sale.Locked[r.SeatID] = &reservation.LockedSeat{Free: r.Free, HeldBy: r.HeldBy}
	}
	return t.lockExpiredHolds(ctx, expired)
}

// leaveScarce removes the expired holds that have a seat in a scarce section, so that nobody takes
// them over.
func (t *seatsTx) leaveScarce(ctx context.Context) error {
	arg := db.ScarceSectionsParams{WithReturns: false}
	for _, seats := range t.sale.Expired {
		for _, id := range seats {
			arg.Sections = append(arg.Sections, reservation.NewSeat(id, 0).Section)
		}
	}
	slices.Sort(arg.Sections)
	arg.Sections = slices.Compact(arg.Sections)
	arg.EventIds = slices.Repeat([]string{t.eventID}, len(arg.Sections))
	scarce, err := t.ScarceSections(ctx, arg)
	for _, s := range scarce {
		maps.DeleteFunc(t.sale.Expired, func(_ uuid.UUID, seats []string) bool {
			return slices.ContainsFunc(seats, func(id string) bool { return reservation.NewSeat(id, 0).Section == s.Section })
		})
	}
	return err
}

// lockExpiredHolds locks the rows of the expired holds of which all seats are locked. Since seats
// are locked before rows, nobody else can have these rows. A hold that is not due keeps its seats.
func (t *seatsTx) lockExpiredHolds(ctx context.Context, expired []uuid.UUID) (err error) {
	complete := slices.DeleteFunc(expired, func(id uuid.UUID) bool { return !t.sale.FullyLocked(id) })
	if t.due, err = purchases.LockDueReservations(ctx, t.Tx, complete); err != nil {
		return err
	}
	for _, id := range complete {
		if t.due.Find(id) == nil {
			delete(t.sale.Expired, id)
		}
	}
	return nil
}

func (t *seatsTx) lockSeats(ctx context.Context, seats []string, wait bool) ([]db.LockSeatsRow, error) {
	slices.Sort(seats)
	arg := db.LockSeatsParams{EventID: t.eventID, SeatIds: slices.Compact(seats), Now: t.AsOf}
	if wait {
		return postgres.LockSeats.Take(ctx, t.Tx, arg)
	}
	free, err := t.LockFreeSeats(ctx, db.LockFreeSeatsParams(arg))
	rows := make([]db.LockSeatsRow, len(free))
	for i, r := range free {
		rows[i] = db.LockSeatsRow(r)
	}
	return rows, err
}
